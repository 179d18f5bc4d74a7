"""Privacy accounting: from what was released to brackets on epsilon, each with its theorem."""

from privaudit.accounting._literature import (
    bennett_blanket,
    erlingsson_2019,
    fmt21_closed_form,
    fmt21_minimum_users,
    hoeffding_blanket,
)
from privaudit.accounting.bracket import Bracket, NumericalError, OutOfDomainError
from privaudit.accounting.budget import Budget, BudgetRow, UncoveredRelease, budget
from privaudit.accounting.composition import (
    advanced_composition,
    epsilon_from_rdp,
    epsilon_of_gaussian,
    epsilon_of_zcdp,
    local_zcdp,
    theorem2_delta_s,
)
from privaudit.accounting.coordinate import coordinate_bracket, coordinate_upper
from privaudit.accounting.vector import (
    ShuffledVector,
    VectorBudget,
    compose_coordinate,
    compose_theorem2,
    compose_vectors,
    theorem2,
    vector_budget,
)

__all__ = [
    "Bracket",
    "Budget",
    "BudgetRow",
    "NumericalError",
    "OutOfDomainError",
    "ShuffledVector",
    "UncoveredRelease",
    "VectorBudget",
    "advanced_composition",
    "bennett_blanket",
    "budget",
    "compose_coordinate",
    "compose_theorem2",
    "compose_vectors",
    "coordinate_bracket",
    "coordinate_upper",
    "epsilon_from_rdp",
    "epsilon_of_gaussian",
    "epsilon_of_zcdp",
    "erlingsson_2019",
    "fmt21_closed_form",
    "fmt21_minimum_users",
    "hoeffding_blanket",
    "local_zcdp",
    "theorem2",
    "theorem2_delta_s",
    "vector_budget",
]

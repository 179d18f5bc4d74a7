"""Privacy accounting: from what was released to brackets on epsilon, each with its theorem."""

from privaudit.accounting._counts import (
    fmt21_numerical,
    fmt23_numerical,
    randomized_response_epsilon,
)
from privaudit.accounting._literature import (
    bennett_blanket,
    erlingsson_2019,
    fmt21_closed_form,
    fmt21_minimum_users,
    hoeffding_blanket,
)
from privaudit.accounting._optimal import compose_pair, optimal_composition
from privaudit.accounting.bracket import (
    Bracket,
    ContradictionError,
    NumericalError,
    OutOfDomainError,
)
from privaudit.accounting.budget import Budget, BudgetRow, UncoveredRelease, budget
from privaudit.accounting.certificate import certify
from privaudit.accounting.composition import (
    advanced_composition,
    epsilon_from_rdp,
    epsilon_of_gaussian,
    epsilon_of_zcdp,
    local_zcdp,
    theorem2_delta_s,
)
from privaudit.accounting.coordinate import (
    coordinate_bracket,
    coordinate_brackets,
    coordinate_upper,
)
from privaudit.accounting.empirical import (
    EmpiricalEpsilon,
    clopper_pearson_epsilon,
    credible_epsilon,
    gaussian_fit_epsilon,
    largest_attainable_epsilon,
    one_run_epsilon,
)
from privaudit.accounting.planning import (
    ClusterPlan,
    Level,
    cluster_size_for,
    epsilon0_for,
    plan_clusters,
    rounds_for,
    upper_bound,
)
from privaudit.accounting.releases import ReleaseBudget, compose_releases
from privaudit.accounting.rounds import compose_coordinate
from privaudit.accounting.vector import (
    ShuffledVector,
    VectorBudget,
    compose_theorem2,
    compose_vectors,
    theorem2,
    vector_budget,
)
from privaudit.accounting.what_if import what_if_rows

__all__ = [
    "Bracket",
    "Budget",
    "BudgetRow",
    "ClusterPlan",
    "ContradictionError",
    "EmpiricalEpsilon",
    "Level",
    "NumericalError",
    "OutOfDomainError",
    "ReleaseBudget",
    "ShuffledVector",
    "UncoveredRelease",
    "VectorBudget",
    "advanced_composition",
    "bennett_blanket",
    "budget",
    "certify",
    "clopper_pearson_epsilon",
    "cluster_size_for",
    "compose_coordinate",
    "compose_pair",
    "compose_releases",
    "compose_theorem2",
    "compose_vectors",
    "coordinate_bracket",
    "coordinate_brackets",
    "coordinate_upper",
    "credible_epsilon",
    "epsilon0_for",
    "epsilon_from_rdp",
    "epsilon_of_gaussian",
    "epsilon_of_zcdp",
    "erlingsson_2019",
    "fmt21_closed_form",
    "fmt21_minimum_users",
    "fmt21_numerical",
    "fmt23_numerical",
    "gaussian_fit_epsilon",
    "hoeffding_blanket",
    "largest_attainable_epsilon",
    "local_zcdp",
    "one_run_epsilon",
    "optimal_composition",
    "plan_clusters",
    "randomized_response_epsilon",
    "rounds_for",
    "theorem2",
    "theorem2_delta_s",
    "upper_bound",
    "vector_budget",
    "what_if_rows",
]

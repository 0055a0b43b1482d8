"""Small NumPy programs with loops and choices of every form, and arguments: what `control_flow="python"` compiles."""

import numpy as np

RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=9), RNG.normal(size=9)
A = RNG.normal(size=(5, 4))
PROGRAMS = []


def program(*arguments):
    """Register a function with tuples of arguments to call it with."""

    def mark(function):
        PROGRAMS.append((function, arguments))
        return function

    return mark


# -- if ---------------------------------------------------------------------------------------------
@program((X,), (-np.abs(X),))
def if_else(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@program((X, 0.5), (X, -3.0), (X, 2.0))
def if_elif_else(x, p):
    if p > 1:
        y = x + p
    elif p > 0:
        y = x * p
    else:
        y = -x
    return y


@program((X, 1), (X, -1))
def if_alone(x, k):
    y = x
    if k > 0:
        y = y * k
    return y


@program((X, 1.0), (X, -1.0))
def if_writes(x, p):
    y = x.copy()
    if p > 0:
        y[1:] = y[:-1] + p
    return y


@program((X, 1.0), (X, -1.0))
def if_writes_through_a_view(x, p):
    y = x.copy()
    v = y[2:5]
    if p > 0:
        v[...] = 7
        v += 1
    return y, v * 2


@program((X, 1.0), (X, -1.0))
def both_write(x, p):
    y, z = np.zeros_like(x), np.ones_like(x)
    if p > 0:
        y[0] = p
    else:
        z[0], y[1] = p, p
    return y, z


@program((X, 1.0), (X, -1.0), (X, 3.0))
def nested_ifs(x, p):
    y = 0.0
    if p > 0:
        if x[0] * p > 2:
            y = 1.0
        else:
            y = p * 2
        y += 1
    return y


@program((X, 1.0), (X, -1.0))
def early_return(x, p):
    if p > 0:
        return x
    y = x * p
    return y + 1


@program((X, 1.0), (X, -1.0), (X, 0.0))
def early_returns(x, p):
    if p > 0:
        if x[0] > p:
            return x + 5
        y = x * 3
    elif p == 0:
        return -x
    else:
        y = x * p
    return y + 1


@program((X, 1.0, 2.0), (X, -1.0, 2.0), (X, 1.0, -2.0), (X, -1.0, -2.0))
def and_or_not(x, p, q):
    y = x
    if p > 0 and q > 0:
        y = y + 1
    if p > 0 or q > 0:
        y = y * 2
    if not p > 0:
        y = y - 3
    if not (p > 0 and not q > 0) or p > q:
        y = y * 5
    return y


@program((1.0, 2.0), (2.0, 1.0), (0.5, 0.25))
def chained_comparisons(p, q):
    r = 0
    if 0 < p < q:
        r = 1
    if 0 < p <= q < 3:
        r += 2
    if p > q > 0.1:
        r += 4
    return r


@program((X, 1.0), (X, -1.0))
def conditional_expressions(x, p):
    y = x * 2 if p > 0 else x / 2
    s = 1.0 if x[0] > p else -1.0
    return y * s + (p if p > 0.5 else 0.5)


@program((X, 5), (X, 0), (X, -2))
def and_gives_an_operand(x, k):
    return (k and 7), (k or 3), x[(k or 2) and 1]


@program((3,), (4,), (9,))
def membership(k):
    r = 0
    if k in (3, 4):
        r = 1
    if k not in (4, 5, 9):
        r += 2
    return r


@program((X, 1.0), (X, -1.0))
def tuples_are_chosen(x, p):
    if p > 0:
        pair = (x, 1)
    else:
        pair = (x * 2, 2)
    a, b = pair
    return a * b


@program((X, 1.0), (X, -1.0))
def unset_on_one_path_and_not_used(x, p):
    if p > 0:
        t = x * 2
        y = t + 1
    else:
        y = x
    return y


@program((1.0,), (-1.0,))
def known_conditions_are_python(p):
    mode = "fast"
    if mode == "fast":
        kind = "a"
    else:
        kind = "b"
    return p * 2 if kind == "a" else p


@program((X, 1.0), (X, -1.0))
def lists_keep_their_length(x, p):
    state = [x, 1.0]
    if p > 0:
        state[0] = x * 2
        state[1] = p
    return state[0] * state[1]


@program((2.5, 1.5), (1.5, 2.5))
def python_functions(p, q):
    return max(p, q) - min(p, 2.0), int(p), float(q) * 2, abs(-p), bool(p > q)


# -- for --------------------------------------------------------------------------------------------
@program((X, 5), (X, 0), (X, 1))
def counted(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x


@program((X,), (X[:1],))
def over_a_size(x):
    s = 0
    for k in range(x.shape[0]):
        s += x[k] * k
    return s


@program((X,), (X[:2],))
def over_a_length_with_a_start(x):
    y = x.copy()
    for k in range(1, len(x)):
        y[k] = y[k - 1] * 0.5 + x[k]
    return y


@program((X,), (X[:2],))
def backwards(x):
    y = np.zeros_like(x)
    for k in range(len(x) - 1, -1, -1):
        y[k] = x[k] - y[(k + 1) % len(x)]
    return y


@program((X, 7), (X, 2), (X, 0))
def steps_of_two_and_three(x, n):
    y = np.zeros_like(x)
    s = 0
    for k in range(0, n, 2):
        y[k] = k
        s = s + k
    for k in range(n, 0, -3):
        y[k] += 0.5
        s = s * 2 + k
    return y, s


@program((X, 2, 7), (X, 5, 2), (X, -3, 1))
def range_between_traced_ends(x, low, high):
    s = 0.0
    for k in range(low, high):
        s = s * 0.5 + x[k] + k
    return s


@program((X,))
def short_ranges_are_unrolled(x):
    names = ["a", "b", "c"]
    y = {}
    for k in range(3):
        y[names[k]] = x * k
    return y["a"] + y["b"] + y["c"]


@program((X,))
def long_ranges_are_loops(x):
    for k in range(100):
        x = x * 0.99 + 0.001 * k
    return x


@program((X,))
def long_ranges_with_python_indices(x):
    weights = [0.1 * k for k in range(12)]
    parts = [f"{k}" for k in range(12)]
    s = 0.0
    for k in range(12):
        s = s + weights[k] * x.sum() + len(parts[k])
    return s


@program((A,), (A[:, :1],))
def over_rows(a):
    s = np.zeros(a.shape[1])
    for row in a:
        s = s + row * row.sum()
    return s


@program((X,), (X[:3],))
def over_elements(x):
    biggest = x[0]
    for v in x:
        if v > biggest:
            biggest = v
    return biggest


@program(
    (X, Y),
)
def zipped(x, y):
    s = 0.0
    for a, b in zip(x, y, strict=True):
        s += a * b
    return s


@program(
    (X, Y),
)
def zipped_with_a_range(x, y):
    s = 0.0
    for k, a in zip(range(2, 8), x, strict=False):
        s += a * y[k]
    return s


@program((X,), (A,))
def enumerated(x):
    s = 0.0
    for k, v in enumerate(x):
        s = s + k * v
    for k, v in enumerate(x, start=2):
        s = s + k * v
    return s


@program((X, Y))
def enumerated_zip(x, y):
    s = 0.0
    for k, (a, b) in enumerate(zip(x, y, strict=True)):
        s = s + k * a - b
    return s


@program((X,))
def reversed_elements(x):
    s = 0.0
    for v in reversed(x):
        s = s * 0.5 + v
    for k in reversed(range(x.shape[0])):
        s = s * 0.5 + x[k]
    return s


@program((A,), (A[:1],))
def nested_loops(a):
    n, m = a.shape
    s = 0.0
    for i in range(n):
        for j in range(m):
            s = s + a[i, j] * (i - j)
    return s


@program((A,))
def triangular_loops(a):
    out = np.zeros((a.shape[0], a.shape[0]))
    for i in range(a.shape[0]):
        for j in range(i + 1):
            out[i, j] = (a[i] * a[j]).sum()
    return out


@program((A, 3), (A, 0))
def time_loop(u, steps):
    u = u.copy()
    for _ in range(steps):
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        u = new
    return u


@program((A, 3), (A, 0))
def time_loop_in_place(u, steps):
    u = u.copy()
    for _ in range(steps):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


@program((A, 4), (A, 1), (A, 0))
def two_buffers(u, steps):
    a, b = u.copy(), np.zeros_like(u)
    for _ in range(steps):
        b[1:-1] = (a[2:] + a[:-2]) / 2
        a, b = b, a
    return a


@program((X, 3))
def a_view_made_before(x, n):
    a = x.copy()
    b = a[1:]
    for k in range(n):
        b[k] = a[k] + 1
    return a, b


@program((X, 3))
def a_view_made_inside(x, n):
    a = x.copy()
    for k in range(n):
        left, right = a[:-1], a[1:]
        left += 0.5 * right
        a[k] = left[0]
    return a


@program((A, 3))
def rows_are_views(x, n):
    a = x.copy()
    for k in range(n):
        row = a[k]
        row += 1
        a[k][0] = 5.0
    for row in a:
        row[1] = row[0] * 2
    return a


@program((A, 3))
def a_view_of_a_view(x, n):
    a = np.zeros((6, 5))
    inner = a[1:, :-1]
    corner = inner[::2]
    for _ in range(n):
        corner += 1
        inner[0] *= 2
    return a


@program((A, 4))
def transposed(x, n):
    a = x.copy()
    t = a.T
    for k in range(n):
        t[k] += t[0].sum()
    return a


@program((X, 5, 1.0), (X, 5, -1.0))
def a_choice_in_a_loop(x, n, p):
    for k in range(n):
        if k % 2 == 0:
            x = x + p
        elif p > 0:
            x = x * 0.5
    return x


@program((X,), (-np.abs(X),))
def writes_where_a_choice_says(x):
    y = np.zeros_like(x)
    count = 0
    for k in range(len(x)):
        if x[k] > 0:
            y[count] = x[k]
            count += 1
    return y, count


@program((X, 1.0), (X, 10.0), (X, -10.0))
def breaks(x, limit):
    s = 0.0
    for k in range(len(x)):
        s = s + abs(x[k])
        if s > limit:
            break
    return s


@program((X,), (np.abs(X),))
def continues(x):
    s = 0.0
    for v in x:
        if v < 0:
            continue
        s = s + v
    return s


@program((X,), (np.abs(X) + 1,))
def continues_deep_inside(x):
    s = 0.0
    for v in x:
        if v > -0.5:
            if v < 0.5:
                continue
            s = s + 1
        s = s + v
    return s


@program((X, float(X[4])), (X, 50.0), (X, float(X[0])))
def returns_from_a_loop(x, v):
    for k in range(len(x)):
        if x[k] == v:
            return k
    return -1


@program((A, float(A[2, 1])), (A, 50.0), (A, float(A[4, 3])))
def returns_from_two_loops(a, v):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] == v:
                return i, j
    return -1, -1


@program((X, float(X[4])), (X, 50.0))
def for_else(x, v):
    for k in range(len(x)):
        if x[k] == v:
            found = k
            break
    else:
        found = -1
    return found


@program((A,), (-np.abs(A),))
def breaks_of_the_inner_loop(a):
    s = 0.0
    for row in a:
        for v in row:
            if v < 0:
                break
            s = s + v
        s = s * 0.5
    return s


@program((X, 5))
def the_counter_after_the_loop(x, n):
    for k in range(n):
        y = x * k
    return y, k


@program((X,))
def a_variable_of_the_loop_after_it(x):
    for k in range(len(x)):
        last = x[k] * 2
    return last


@program((X, 1.0), (X, 100.0))
def break_leaves_the_counter(x, limit):
    s = 0.0
    for k in range(len(x)):
        s += abs(x[k])
        if s > limit:
            break
    return k, s


@program((X, 4))
def swaps(x, n):
    a, b = x, x * 2
    for _ in range(n):
        a, b = b, a + b
    return a, b


@program((X,))
def a_sum_starts_as_a_python_int(x):
    total, product = 0, 1
    for v in x:
        total = total + v
        product = product * v
    return total, product


@program((X.astype(np.float32),))
def float32_stays(x):
    s = 0.0
    dt = 0.5
    for v in x:
        s = s + v * dt
    return s


@program((np.arange(9),))
def integers(x):
    s, m = 0, 1
    for v in x:
        s = s + v
        m = (m * 3 + v) % 101
    return s, m


@program((X, 3))
def lists_in_loops(x, n):
    z = [0.0, 0.0]
    for k in range(n):
        y = x[k] + z[0]
        z[0] = z[1] - 0.5 * y
        z[1] = 0.25 * y
    return z[0], z[1]


@program((X, 3))
def dicts_in_loops(x, n):
    state = {"x": x, "v": x * 0.0}
    for _ in range(n):
        state["v"] = state["v"] - 0.1 * state["x"]
        state["x"] = state["x"] + 0.1 * state["v"]
    return state["x"]


@program((X,))
def coefficients_of_a_tuple(x):
    weights = (0.5, 0.25, 0.125, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    s = 0.0
    for k in range(len(x)):
        s = s + weights[k] * x[k]
    return s


TABLE = np.linspace(0, 1, 9)


@program((X,))
def arrays_from_outside(x):
    s = 0.0
    for k in range(len(x)):
        s = s + TABLE[k] * x[k]
    return s


# -- while ------------------------------------------------------------------------------------------
@program((2.0,), (1e6,))
def until_convergence(a):
    x, change = a, 1.0
    while change > 1e-12:
        new = 0.5 * (x + a / x)
        x, change = new, abs(new - x)
    return x


@program((2.0,), (1e6,))
def while_true_and_break(a):
    x = a
    while True:
        new = 0.5 * (x + a / x)
        if abs(new - x) < 1e-12:
            break
        x = new
    return x


@program((27,), (1,), (6,))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@program((48, 18), (7, 3))
def euclid(a, b):
    while b:
        a, b = b, a % b
    return a


@program((X,), (X[:1],))
def counting_to_a_size(x):
    k = 0
    s = 0.0
    while k < len(x):
        s = s + x[k]
        k += 1
    return s, k


@program((X, 0.3), (X, -9.0))
def while_with_and(x, v):
    k = 0
    while k < len(x) and x[k] != v:
        k += 1
    return k


@program((X,))
def a_known_while(x):
    k = 0
    while k < 3:
        x = x * 2
        k += 1
    return x


@program((X, 1.0), (X, 1e-3))
def while_else(x, tol):
    k = 0
    while k < 20:
        x = x * 0.5
        k += 1
        if np.abs(x).max() < tol:
            done = 1
            break
    else:
        done = 0
    return x, done, k


@program((np.abs(X) + 0.1,))
def while_over_an_array(x):
    r = x
    while np.abs(r).max() > 0.1:
        r = r * 0.7
        r[0] = r[0] * 0.5
    return r


@program((A @ A.T + 9 * np.eye(5), A[:, 0]))
def conjugate_gradient(a, b):
    x = np.zeros_like(b)
    r = b - a @ x
    p = r.copy()
    rs = (r * r).sum()
    while rs > 1e-20:
        ap = a @ p
        alpha = rs / (p * ap).sum()
        x = x + alpha * p
        r = r - alpha * ap
        new = (r * r).sum()
        p = r + new / rs * p
        rs = new
    return x


@program((-0.7, 0.3), (2.0, 2.0), (0.0, 0.0))
def mandelbrot(re, im):
    x = y = 0.0
    for k in range(60):
        if x * x + y * y > 4:
            return k
        x, y = x * x - y * y + re, 2 * x * y + im
    return 60


# -- functions --------------------------------------------------------------------------------------
def clipped(v, low=-0.5, high=0.5):
    if v < low:
        return low
    return high if v > high else v


def total(x, f):
    s = 0.0
    for v in x:
        s = s + f(v)
    return s


@program((X,))
def calls_functions(x):
    return total(x, clipped) + total(x, lambda v: clipped(v, high=0.1))


@program((X, 2.0), (X, -2.0))
def calls_nested_functions(x, p):
    def step(v):
        if v > 0:
            return v * p
        return v

    s = 0.0
    for k in range(len(x)):
        s = s + step(x[k])
    return s


def power(x, n):
    if n == 0:
        return 1.0
    return x * power(x, n - 1)


@program((X,))
def recursion_that_python_ends(x):
    return power(x, 3)


class Filter:
    """Holds a factor."""

    def __init__(self, factor):
        self.factor = factor
        self.__bias = 0.5

    def apply(self, x):
        y = 0.0
        for v in x:
            y = y * self.factor + v + self.__bias
        return y


FILTER = Filter(0.5)


@program((X,))
def calls_methods(x):
    return FILTER.apply(x)


@program((X, 0.5), (X, -0.5))
def with_a_context(x, p):
    with np.errstate(all="ignore"):
        if p > 0:
            y = x / p
        else:
            y = x
    return y


@program((X, 3))
def deletes_a_name(x, n):
    for _ in range(n):
        t = x * 2
        x = t - 1
        del t
    return x


@program((A,))
def floyd_warshall(a):
    d = np.abs(a[:4, :4])
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@program((np.abs(RNG.normal(size=(3, 4, 6))), RNG.normal(size=(3, 4, 6))))
def thomas(a, d):
    b, c = a * 0 + 5, a * 0.5
    n = d.shape[-1]
    cp, dp, x = np.empty_like(d), np.empty_like(d), np.empty_like(d)
    cp[..., 0] = c[..., 0] / b[..., 0]
    dp[..., 0] = d[..., 0] / b[..., 0]
    for k in range(1, n):
        m = b[..., k] - a[..., k] * cp[..., k - 1]
        cp[..., k] = c[..., k] / m
        dp[..., k] = (d[..., k] - a[..., k] * dp[..., k - 1]) / m
    x[..., -1] = dp[..., -1]
    for k in range(n - 2, -1, -1):
        x[..., k] = dp[..., k] - cp[..., k] * x[..., k + 1]
    return x


@program((np.array([5.0, 2.0, 9.0, 1.0, 7.0]),))
def insertion_sort(x):
    y = x.copy()
    for i in range(1, len(y)):
        v = y[i]
        j = i - 1
        while j >= 0 and y[j] > v:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = v
    return y


@program((np.array([1.0, 3.0, 5.0, 8.0]), 4.0), (np.array([1.0, 3.0, 5.0, 8.0]), 9.0))
def binary_search(x, v):
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


@program((0.0, 2.0))
def bisection(low, high):
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle * middle * middle > 2:
            high = middle
        else:
            low = middle
        if high - low < 1e-9:
            break
    return low

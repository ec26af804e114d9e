"""Special functions and exact operators of Tandem's own, without a step: PyTorch's values, or, where these are not exact, those of other libraries."""

import math

import pytest
import torch

INF, NAN = math.inf, math.nan


def of(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_erfcx_is_exact():
    from tandem.formulas import formulas

    x = torch.cat([torch.linspace(-5, 40, 4001), torch.logspace(1, 100, 100)]).double()
    for dtype in (torch.float64, torch.float32):
        found, expected = formulas._erfcx(x.to(dtype)), torch.special.erfcx(x.to(dtype))
        torch.testing.assert_close(
            found, expected, rtol=4e-13 if dtype.itemsize == 8 else 1e-6, atol=0
        )


def test_bessel_functions_of_the_first_kind():
    """By SciPy's values: PyTorch's own are off by up to 5e-7."""
    from tandem.formulas import special_functions

    x = torch.tensor([0.5, 5.3, 50.0, -5.3], dtype=torch.float64)
    j0 = [0.938469807240813, -0.07580311158558423, 0.055812327669252086, -0.07580311158558423]
    j1 = [0.24226845767487387, -0.34596083380118625, -0.09751182812517509, 0.34596083380118625]
    for function, expected in ((special_functions.order_0, j0), (special_functions.order_1, j1)):
        torch.testing.assert_close(
            function(x), torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0
        )


def test_special_functions_are_exact():
    from tandem.formulas import special_functions

    x = torch.cat([torch.linspace(-130, 130, 1001), torch.tensor([0.0, 1e-9, 600.0])]).double()
    p = torch.cat([torch.linspace(0, 1, 1001), torch.tensor([1e-300, 1e-9, 2.0])]).double()
    n = torch.arange(1004) % 12
    pairs = [
        (special_functions._i0e(x), torch.special.i0e(x)),
        (special_functions._i1e(x), torch.special.i1e(x)),
        (special_functions._ndtri(p), torch.special.ndtri(p)),
        (special_functions.zeta(3.0, x[x > 0]), torch.special.zeta(3.0, x[x > 0])),
    ]
    for name, recurrence in special_functions._POLYNOMIALS.items():
        found = special_functions._by_recurrence(*recurrence)(p * 2 - 1, n)
        pairs.append((found, getattr(torch.special, name)(p * 2 - 1, n)))
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11, equal_nan=True)


def test_gamma_is_exact():
    from tandem.formulas import gamma

    x = torch.linspace(-30.3, 40, 5001, dtype=torch.float64)
    x = torch.cat([x, torch.tensor([1e-300, 1e-20, -1e-20, 1e5, 1e300, 1.0, 2.0, -3.0, 0.0])])
    for found, expected in (
        (gamma.lgamma(x), torch.lgamma(x)),
        (gamma.digamma(x[:-2]), torch.digamma(x[:-2])),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    x = x.clamp(min=0.01)  # PyTorch's own series ends early
    torch.testing.assert_close(gamma.polygamma(1, x), torch.polygamma(1, x), rtol=1e-8, atol=0)


# By mpmath's values with 30 digits: PyTorch's own are off by up to 3e-6.
PLACES = of(1e-9, 0.3, 0.99, 1.7, 3.99, 4.01, 9.5, 60.0, 400.0)
SECOND_KIND = {
    "bessel_y0": of(
        -13.266645074938387, -0.8072735778045195, 0.08040121621363991, 0.4520270001816346, -0.01295571850899346,
        -0.020914118070624394, 0.17121062620272384, 0.0473589522094494, -0.00917351986075936,
    ),
    "bessel_y1": of(
        -636619772.3675814, -2.2931051383885293, -0.7899515491621414, -0.2847262450640684, 0.39907270560593067,
        0.396744320740282, 0.20317989938720768, 0.09186960936986689, 0.03881374498075154,
    ),
    "scaled_modified_bessel_k0": of(
        20.83919737344402, 1.8526273007720142, 1.1494128703415314, 0.9059181385685513, 0.6100217464685533,
        0.6085761757990986, 0.40156513211540534, 0.16146817823629392, 0.06264615129957811,
    ),
    "scaled_modified_bessel_k1": of(
        1000000000.9999999, 4.12515776224447, 1.6477055552521314, 1.146039246230254, 0.682559171539069,
        0.6805968478537808, 0.42219454297695785, 0.16280823094404426, 0.06272441016827716,
    ),
    "airy_ai": of(
        0.03872636290513791, -0.23346817960876542, 0.36736748287733134, -0.37881429367765806, 0.22120226633022266,
        0.2868000562794909, 0.4542256138886674, 0.13689065924593272, 0.13370770246895858, 9.947694360252889e-06,
        6.365742658552915e-75,
    ),
}  # fmt: skip
AIRY_PLACES = of(-300.0, -20.3, -4.7, -3.0, -2.01, -1.9, -0.4, 0.99, 1.01, 6.0, 40.0)
NAMES = [*SECOND_KIND, "modified_bessel_k0", "modified_bessel_k1"]


def formula(name):
    from tandem.capture import functional  # noqa: F401 - which imports all rules
    from tandem.formulas.formulas import FORMULAS

    return FORMULAS[getattr(torch.ops.aten, name).default]


@pytest.mark.parametrize("name", NAMES)
def test_second_kind(name):
    function, places = formula(f"special_{name}"), AIRY_PLACES if "airy" in name else PLACES
    expected = SECOND_KIND.get(name)
    if expected is None:
        expected = SECOND_KIND[f"scaled_{name}"] * torch.exp(-PLACES)
    torch.testing.assert_close(function(places), expected, rtol=3e-13, atol=3e-14)
    edges = of(0.0, -0.0, -1.0, INF, -INF, NAN, 1e-320)
    eager = getattr(torch.special, name)(edges)
    torch.testing.assert_close(function(edges), eager, rtol=1e-12, atol=0, equal_nan=True)


def test_incomplete_gamma_functions():
    """Also where both arguments are large and nearly equal."""
    generator = torch.Generator().manual_seed(0)
    a = 10 ** (torch.rand(4000, generator=generator, dtype=torch.float64) * 7 - 3)
    near = (a * (1 + torch.randn(4000, generator=generator) / a.sqrt())).abs()
    far = 10 ** (torch.rand(4000, generator=generator, dtype=torch.float64) * 7 - 3)
    edges = of(0.0, -0.0, -1.0, INF, -INF, NAN, 1.0, 1e-300, 1e300, 5.0)
    a, x = torch.cat([a, a]), torch.cat([near, far])
    a = torch.cat([a, edges.repeat(10)])
    x = torch.cat([x, edges.repeat_interleave(10)])
    for name in ("igamma", "igammac"):
        found, expected = formula(name)(a, x), getattr(torch, name)(a, x)
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-9, equal_nan=True)


def patterns(dtype):
    """Numbers of all sizes, and those at the ends."""
    info, generator = torch.finfo(dtype), torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**63), 2**63 - 1, (4000,), generator=generator)
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16}[dtype.itemsize]
    random = (bits >> (64 - 8 * dtype.itemsize)).to(kind).view(dtype)
    ends = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        0.5,
        INF,
        -INF,
        NAN,
        info.max,
        info.min,
        info.tiny,
        -info.tiny,
    ]
    ends += [info.tiny * info.eps, -info.tiny * info.eps, 1 - info.eps / 2]
    return random, torch.tensor(ends, dtype=dtype)


def identical(found, expected):
    equal = (found == expected) & (found.signbit() == expected.signbit())
    assert (equal | (found.isnan() & expected.isnan())).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_parts_and_neighbours_of_numbers(dtype):
    from tandem.formulas import exact_numbers

    random, ends = patterns(dtype)
    x = torch.cat([random, ends])
    (share, exponent), expected = exact_numbers._frexp(x), torch.frexp(x)
    identical(share, expected.mantissa)
    assert torch.equal(exponent, expected.exponent) and exponent.dtype == torch.int32
    x = torch.cat([x, ends.repeat(len(ends)), random])
    y = torch.cat(
        [x[: len(random) + len(ends)].flip(0), ends.repeat_interleave(len(ends)), -random]
    )
    identical(exact_numbers._nextafter(x, y), torch.nextafter(x, y))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_divisors(dtype):
    """Two numbers of Fibonacci take the most rounds."""
    from tandem.formulas import exact_numbers

    info, generator = torch.iinfo(dtype), torch.Generator().manual_seed(0)
    numbers = [1, 1]
    while numbers[-1] + numbers[-2] <= info.max:
        numbers.append(numbers[-1] + numbers[-2])
    ends = torch.tensor([0, 1, -1, 12, -18, *numbers[-2:], info.max, info.min], dtype=dtype)
    pairs = torch.randint(info.min, info.max, (2, 500), generator=generator).to(dtype)
    x = torch.cat([pairs[0], ends.repeat(len(ends))])
    y = torch.cat([pairs[1], ends.repeat_interleave(len(ends))])
    assert torch.equal(exact_numbers.gcd(x, y), torch.gcd(x, y))
    has_size = (x != info.min) & (y != info.min)  # PyTorch's lcm divides by it
    x, y = x[has_size], y[has_size]
    assert torch.equal(exact_numbers._lcm(x, y), torch.lcm(x, y))

"""Great-circle distances by the haversine formula."""

import numpy as np

EARTH_RADIUS_KM = 6371.0088  # mean radius R1 of the GRS 80 ellipsoid


def haversine(lat1, lon1, lat2, lon2):
    """Kilometres between points given in degrees."""
    lat1, lon1, lat2, lon2 = np.radians(lat1), np.radians(lon1), np.radians(lat2), np.radians(lon2)
    a = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(a))


def main():
    import aotarray

    random = np.random.default_rng(0)
    n = 1_000_000
    lat, lon = random.uniform(-80, 80, n), random.uniform(-180, 180, n)
    compiled = aotarray.jit(haversine)
    distance = compiled(52.52, 13.405, lat, lon)
    difference = np.max(np.abs(distance - haversine(52.52, 13.405, lat, lon)))
    print(f"mean distance from Berlin {distance.mean():.1f} km, largest difference {difference:.1e} km")
    assert difference < 1e-6


if __name__ == "__main__":
    main()

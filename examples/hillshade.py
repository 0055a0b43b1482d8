"""Shaded relief of a real elevation grid: the Jacksboro fault, from matplotlib's sample data.

Run: python examples/hillshade.py [PICTURE]     (writes build/hillshade.png; needs matplotlib)
"""

import sys
from pathlib import Path

import numpy as np

AZIMUTH = np.radians(315.0)  # where the light comes from, clockwise from north
ALTITUDE = np.radians(45.0)  # above the horizon


def hillshade(elevation, dx, dy):
    """Brightness from 0 to 1 of `elevation` (rows from north to south), cells `dx` by `dy` in its unit.

    Slopes are Horn's weighted differences (B. K. P. Horn, Hill shading and the reflectance map, 1981);
    the brightness is the cosine between the surface's normal and the light.
    """
    z = np.pad(elevation, 1, mode="edge")
    west = z[:-2, :-2] + 2.0 * z[1:-1, :-2] + z[2:, :-2]
    east = z[:-2, 2:] + 2.0 * z[1:-1, 2:] + z[2:, 2:]
    north = z[:-2, :-2] + 2.0 * z[:-2, 1:-1] + z[:-2, 2:]
    south = z[2:, :-2] + 2.0 * z[2:, 1:-1] + z[2:, 2:]
    eastward = (east - west) / (8.0 * dx)
    northward = (north - south) / (8.0 * dy)
    slope_to_light = np.sin(AZIMUTH) * eastward + np.cos(AZIMUTH) * northward
    steepness = np.sqrt(1.0 + eastward * eastward + northward * northward)
    return np.clip((np.sin(ALTITUDE) - np.cos(ALTITUDE) * slope_to_light) / steepness, 0.0, 1.0)


def load():
    """The elevation in metres and the size of a cell in metres."""
    from matplotlib.cbook import get_sample_data

    with get_sample_data("jacksboro_fault_dem.npz") as dem:
        metres_per_degree = 111_200.0
        dx = metres_per_degree * float(dem["dx"]) * np.cos(np.radians(float(dem["ymin"])))
        return dem["elevation"].astype(np.float64), float(dx), metres_per_degree * float(dem["dy"])


def main(picture):
    from matplotlib.figure import Figure

    import aotarray

    elevation, dx, dy = load()
    expected = hillshade(elevation, dx, dy)
    shade = aotarray.jit(hillshade)(elevation, dx, dy)
    difference = np.max(np.abs(shade - expected))

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    panels = (("aotarray", shade), ("NumPy", expected))
    for axes, (title, image) in zip(figure.subplots(1, 2), panels, strict=True):
        axes.imshow(image, cmap="gray", vmin=0.0, vmax=1.0)
        axes.set_title(title)
        axes.set_axis_off()
    figure.savefig(picture, dpi=120)
    print(f"{picture}: {shade.shape[0]} x {shade.shape[1]}, largest difference {difference:.1e}")
    assert difference < 1e-14


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "build" / "hillshade.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)

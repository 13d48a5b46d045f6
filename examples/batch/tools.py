"""The tools of the batch. `dragoman batch -t examples/batch/tools.py` offers every tool of this file."""

import dragoman

POPULATION = {"Oslo": 717_710, "Bergen": 291_940}


@dragoman.tool(read_only=True)
def population(city: str) -> int:
    """The number of people who live in a city."""
    if city not in POPULATION:
        raise dragoman.Error(f"there is no number for {city}; known are {', '.join(POPULATION)}")
    return POPULATION[city]

"""The detectors behind `dragoman.agent.watching`: one idea of going in circles each."""

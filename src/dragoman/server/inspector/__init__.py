"""The inspector: pages of a gateway that show its last exchanges, and try the extraction on pasted text.

It is off unless `dragoman serve --inspector` asks for it. A gateway without it loads nothing of this package.
"""

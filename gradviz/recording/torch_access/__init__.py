"""Every private or version-dependent name of torch, in one place.

Two tools of this field died of private names that moved. Here nothing is believed because it is there: what is taken
from torch's insides is exercised once on a tiny program, and where that fails, something else does the work or the loss
is disclosed.

======================== =========================================================================================
``capabilities``         the table: what is taken from torch, for what, how it is tried, and what is lost without it
``probes``               the tiny programs that try it
``names``                the only doors through which a name of the table is looked up
``patches``              everything of torch that is replaced while a recording runs, and how it is put back
``tensors`` ``nodes``    reading tensors and nodes of the graph
``modes`` ``engine``     which modes are on; what the engine does
``modules``              calls and contents of modules
``custom_functions``     how calls of ``autograd.Function`` are noticed
======================== =========================================================================================

To use another name of torch: write it into the table, with a probe; a test takes each name away and looks at what is
said.
"""

"""Every private or version-dependent name of torch, in one place.

Two similar tools stopped working because private names of torch moved. Here, no name is trusted because it exists: each
is tested once with a tiny program. If that fails, gradviz uses a substitute, or discloses what is lost.

======================== =========================================================================================
``capabilities``         the names used: for what, how each is tested, and what is lost without it
``probes``               the tiny programs that test them
``name_lookup``          the only functions that look up a name of the table
``patches``              the names that are replaced while a recording runs, and how they are restored
``tensors`` ``nodes``    reading tensors and nodes of the graph
``modes`` ``engine``     which modes are on; what the engine does
``modules``              calls and contents of modules
``custom_functions``     notices calls of ``autograd.Function``
======================== =========================================================================================

To use another name of torch, add it to the table with a probe. A test removes each name and checks what is disclosed.
"""

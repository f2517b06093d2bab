"""The program that both runs run, plain and recorded: it runs the examined script as if that were itself.

python examined.py FOLDER SCRIPT [ARGUMENTS]
gradviz record examined.py -- FOLDER SCRIPT [ARGUMENTS]
"""

from tests.harmless.examination import examine

examine(globals())

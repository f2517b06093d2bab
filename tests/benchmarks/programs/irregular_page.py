"""Makes an irregular graph of so many nodes, and its page if a file is named: irregular_page.py 200000 page.html"""

import sys
from pathlib import Path

from gradviz.view.build import ViewOptions
from gradviz.view.folding import FoldOptions
from tests.builders import irregular_graph
from tests.end_to_end.pages import page_of

graph = irregular_graph(int(sys.argv[1]))
for name in sys.argv[2:]:
    Path(name).write_text(page_of(graph, view=ViewOptions(fold=FoldOptions(depth=2))), encoding="utf-8")

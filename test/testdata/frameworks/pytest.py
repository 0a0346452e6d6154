"""Runs the functions of a file as pytest does: python3 pytest.py FILE"""
import runpy
import sys
import traceback

module = runpy.run_path(sys.argv[1])
module.get("setup_module", lambda: None)()
passed = failed = 0
for name, function in list(module.items()):
    if not name.startswith("test_"):
        continue
    try:
        function()
        passed += 1
    except Exception:
        failed += 1
        traceback.print_exc()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)

#!/bin/sh
# Renders a scene: render.sh SCENE PICTURE WIDTH HEIGHT
# The last thing that POV-Ray says is "Render failed"; what was wrong stands before it.
ln -s "$1" scene.pov # POV-Ray breaks lines in the middle of a long path
{ povray +Iscene.pov "+O$2" "+W$3" "+H$4" -D +V 2>&1 || echo "$?" >failed; } | tee log
[ -e failed ] || exit 0
if ! grep -q 'Error:' log; then
  tail -n 5 log >&2
  echo "povray has ended with exit code $(cat failed)" >&2
  exit 1 # not the scene's fault
fi
grep -A 1 'Error:' log | tr -s '\n ' ' ' >&2
exit 65 # the same scene would fail again

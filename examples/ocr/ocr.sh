#!/bin/sh
# Reads scanned pages: ocr.sh INPUT OUTPUT_DIRECTORY CHECKPOINT_DIRECTORY LANGUAGE
# A page that is in the checkpoint is not read again. A file gets its name when it is whole.
set -eu
pages=$(pdfinfo "$1" | awk '/^Pages:/ { print $2 }')
[ -n "$pages" ] || exit 65 # no document
for page in $(seq "$pages"); do
  if [ ! -e "$3/$page.txt" ]; then
    pdftoppm -r 150 -gray -f "$page" -l "$page" -singlefile "$1" page
    OMP_THREAD_LIMIT=1 tesseract page.pgm - -l "$4" >"$3/.page" 2>page.err || { cat page.err >&2; exit 1; }
    mv "$3/.page" "$3/$page.txt"
    echo "page $page: $(wc -w <"$3/$page.txt") words"
  fi
  echo "::progress $page/$pages Page $page/$pages"
done
for page in $(seq "$pages"); do cat "$3/$page.txt"; done >"$2/text.txt"

#!/usr/bin/env bash
# Makes the documents of the corpus that Debian does not have: printed by the
# programs that are installed, rewritten, encrypted and damaged.
#
#   bench/corpus/generate.sh DIR
#
# gather.sh calls it. What DIR/made already has is not made again; delete that
# directory to start over. A program that is not installed is named and its
# documents are left out, but for qpdf, without which there is no corpus.
set -euo pipefail
mkdir -p "$1/made"
dir=$(cd "$1" && pwd)
made=$dir/made
cd "$(dirname "$0")"
testdata=../../pdf/testdata
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
: >"$tmp/manifest"

have() { command -v "$1" >/dev/null || { echo "no $1: install $2 for its documents" >&2; return 1; }; }

# make GROUP ORIGIN NAME COMMAND...: a document $made/NAME.pdf, by a command in
# which %OUT% stands for where to write it. With a fourth field after the group,
# as in encrypted:user, that is the document's password.
make() {
  local group=${1%%:*} password='' origin=$2 name=$3 out status=0
  [[ $1 != *:* ]] || password=${1#*:}
  shift 3
  out=$made/$name.pdf
  if [ ! -s "$out" ]; then
    echo "make $name"
    rm -f "$tmp/out.pdf"
    "${@//%OUT%/$tmp/out.pdf}" >"$tmp/said" 2>&1 || status=$?
    # qpdf ends with 3 for warnings, and has written its file.
    if ((status != 0 && status != 3)) || [ ! -s "$tmp/out.pdf" ]; then
      echo "not made: $name: $(tail -n 1 "$tmp/said")" >&2
      return 0
    fi
    mv "$tmp/out.pdf" "$out"
  fi
  printf 'made/%s.pdf\t%s\t%s\t%s\n' "$name" "$origin" "$group" "$password" >>"$tmp/manifest"
}

have qpdf qpdf

printed() {
  local source
  if have chromium "chromium and its fonts (see README.md)"; then
    for source in latin scripts cjk vertical; do
      make generated chromium "chromium-$source" timeout 180 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$tmp/chromium" \
        --no-pdf-header-footer --print-to-pdf=%OUT% "file://$PWD/source/$source.html"
    done
  fi
  if have soffice libreoffice-writer-nogui; then
    for source in latin.html scripts.html cjk.html rooms.csv; do
      make generated libreoffice "libreoffice-${source%.*}" office "source/$source" pdf %OUT%
    done
    make generated libreoffice libreoffice-archive office source/scripts.html \
      'pdf:writer_web_pdf_Export:{"SelectPdfVersion":{"type":"long","value":"1"}}' %OUT%
    # What the office thinks that others write.
    make generated libreoffice libreoffice-by-doc by_way_of doc 'MS Word 97' %OUT%
    make generated libreoffice libreoffice-by-docx by_way_of docx 'MS Word 2007 XML' %OUT%
    make generated libreoffice libreoffice-by-rtf by_way_of rtf 'Rich Text Format' %OUT%
    make generated libreoffice libreoffice-by-odt by_way_of odt writer8 %OUT%
  fi
  if have weasyprint weasyprint; then
    for source in latin scripts cjk; do
      make generated weasyprint "weasyprint-$source" weasyprint "source/$source.html" %OUT%
    done
  fi
  if have rsvg-convert librsvg2-bin; then
    make generated cairo cairo-figure rsvg-convert -f pdf -o %OUT% source/figure.svg
  fi
  # Debian's package is Debian's Python's, which need not be the first.
  if /usr/bin/python3 -c 'import reportlab' 2>/dev/null; then
    make generated reportlab reportlab-plain /usr/bin/python3 source/standard.py %OUT%
    make generated reportlab reportlab-compressed /usr/bin/python3 source/standard.py %OUT% compressed
  else
    echo "no ReportLab: install python3-reportlab for its documents" >&2
  fi
  if have groff groff; then
    make generated groff groff-letter groff_pdf "$testdata/letter.ms" %OUT%
  fi
  if have gs ghostscript; then
    for source in 1.2 1.4 1.7; do
      make generated ghostscript "ghostscript-$source" gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite "-dCompatibilityLevel=$source" \
        -sOutputFile=%OUT% "${sources[0]}"
    done
    make generated ghostscript ghostscript-ascii gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -dASCII85EncodePages=true \
      -sOutputFile=%OUT% "${sources[1]}"
    make generated ghostscript ghostscript-cjk gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=%OUT% "$made/chromium-cjk.pdf"
  fi
  if have mutool mupdf-tools; then
    make generated mupdf mupdf-clean mutool clean -gggg -z "${sources[1]}" %OUT%
    make generated mupdf mupdf-ascii mutool clean -a -d "${sources[0]}" %OUT%
  fi
  if have pdftocairo poppler-utils; then
    for source in "${!sources[@]}"; do
      make generated pdftocairo "pdftocairo-$source" pdftocairo -pdf "${sources[source]}" %OUT%
    done
    make generated pdfunite pdfunite pdfunite "${sources[@]}" %OUT%
  fi
}

# office SOURCE FORMAT FILE converts with LibreOffice, which names its output itself.
office() {
  local name=${1##*/} written
  written=$tmp/${name%.*}.${2%%:*}
  timeout 180 soffice "-env:UserInstallation=file://$tmp/office" --headless --convert-to "$2" --outdir "$tmp" "$1"
  [ "$written" = "$3" ] || mv "$written" "$3"
}

# by_way_of EXTENSION FILTER FILE prints a page of HTML from another format.
by_way_of() {
  office source/latin.html odt:writer8 "$tmp/latin.odt"
  [ "$1" = odt ] || office "$tmp/latin.odt" "$1:$2" "$tmp/latin.$1"
  office "$tmp/latin.$1" pdf "$3"
}

groff_pdf() { groff -Tpdf -ms -t -Kutf8 "$1" >"$2"; }

# rewritten SOURCE NAME: every structure that qpdf can give a file.
rewritten() {
  make generated qpdf "$2-linearized" qpdf --linearize "$1" %OUT%
  make generated qpdf "$2-packed" qpdf --object-streams=generate "$1" %OUT%
  make generated qpdf "$2-preserved" qpdf --object-streams=preserve --coalesce-contents "$1" %OUT%
  make generated qpdf "$2-unpacked" qpdf --object-streams=disable --compress-streams=n "$1" %OUT%
  make generated qpdf "$2-qdf" qpdf --qdf "$1" %OUT%
  make generated qpdf "$2-packed-linearized" qpdf --object-streams=generate --linearize --newline-before-endstream "$1" %OUT%
}

# encrypted SOURCE NAME: every way of qpdf to encrypt, opened by no password
# and by one.
encrypted() {
  local password group
  for password in "" user; do
    group=encrypted${password:+:$password}
    make "$group" qpdf "$2-rc4-40${password:+-$password}" qpdf --allow-weak-crypto --encrypt "$password" owner 40 -- "$1" %OUT%
    make "$group" qpdf "$2-rc4-128${password:+-$password}" qpdf --allow-weak-crypto --encrypt "$password" owner 128 --use-aes=n -- "$1" %OUT%
    make "$group" qpdf "$2-rc4-v4${password:+-$password}" qpdf --allow-weak-crypto --encrypt "$password" owner 128 --force-V4 -- "$1" %OUT%
    make "$group" qpdf "$2-aes-128${password:+-$password}" qpdf --allow-weak-crypto --encrypt "$password" owner 128 --use-aes=y -- "$1" %OUT%
    make "$group" qpdf "$2-aes-128-cleartext${password:+-$password}" \
      qpdf --allow-weak-crypto --encrypt "$password" owner 128 --use-aes=y --cleartext-metadata -- "$1" %OUT%
    make "$group" qpdf "$2-aes-256${password:+-$password}" qpdf --object-streams=generate --encrypt "$password" owner 256 -- "$1" %OUT%
    make "$group" qpdf "$2-aes-256-r5${password:+-$password}" qpdf --allow-weak-crypto --encrypt "$password" owner 256 --force-R5 -- "$1" %OUT%
  done
}

# Sources for what follows: of several producers, none long.
sources=("$testdata/groff.pdf" "$testdata/ghostscript.pdf" "$testdata/cairo.pdf")
printed
for name in chromium-latin libreoffice-scripts; do
  [ ! -s "$made/$name.pdf" ] || sources+=("$made/$name.pdf")
done
# Of a package that may have been passed over.
short=$(find "$dir" -path '*/debian-refcard/*' -name 'refcard-fr-a4.pdf' | head -n 1)
[ -z "$short" ] || sources+=("$short")

go build -o "$tmp/damage" ./damage
for source in "${sources[@]}"; do
  name=$(basename "$source" .pdf)
  rewritten "$source" "qpdf-$name"
  case $name in groff | cairo | libreoffice-scripts) encrypted "$source" "qpdf-$name" ;; esac
  mkdir -p "$made/damaged"
  "$tmp/damage" "$source" "$made/damaged/$name"
done
# Damage shows most where the structure is in the open, and where it is packed.
for name in qpdf-chromium-latin-qdf qpdf-groff-packed; do
  [ ! -s "$made/$name.pdf" ] || "$tmp/damage" "$made/$name.pdf" "$made/damaged/$name"
done
for file in "$made"/damaged/*.pdf; do
  printf 'made/damaged/%s\tdamage\tdamaged\t\n' "${file##*/}" >>"$tmp/manifest"
done
mv "$tmp/manifest" "$made/manifest.tsv"
echo "$(wc -l <"$made/manifest.tsv") documents made"

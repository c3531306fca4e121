#!/bin/sh
# Makes a WebM of a video: transcode.sh INPUT OUTPUT HEIGHT
# ffmpeg tells how many microseconds it has written; with the length of the video they are progress.
set -eu
length=$(ffprobe -v error -show_entries format=duration -of csv=p=0 "$1") || exit 65 # no video
{ ffmpeg -nostdin -v error -progress pipe:1 -i "$1" -vf "scale=-2:$3" -y "$2" || touch failed; } |
  awk -F= -v length_us="$length" '
    $1 == "out_time_us" && $2 > 0 { printf "::progress %d/%d %.1f s of the video\n", $2, length_us * 1000000, $2 / 1000000; fflush() }'
[ ! -e failed ] || exit 65 # the same input would fail again

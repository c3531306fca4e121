package output

import (
	"bufio"
	"fmt"
)

// textMark is how a line in Text ends that command has cut.
const textMark = " … (line cut)"

// keep writes a line to Text.
func (r *Reader) keep(line []byte, cut bool) error {
	if r.Text == nil {
		return nil
	}
	if r.text == nil {
		r.text = bufio.NewWriterSize(r.Text, 32<<10)
	}
	mark := "\n"
	if cut {
		mark = textMark + mark
	}
	n := int64(len(line) + len(mark))
	if r.TextLimit > 0 && (r.left > 0 || r.written+n > r.TextLimit) {
		r.left += n
		return nil
	}
	r.written += n
	if _, err := r.text.Write(line); err != nil {
		return textError(err)
	}
	_, err := r.text.WriteString(mark)
	return textError(err)
}

func (r *Reader) closeText() error {
	if r.text == nil {
		return nil
	}
	text := r.text
	r.text, r.Text = nil, nil
	if r.left > 0 {
		if _, err := fmt.Fprintf(text, "… (%d bytes left out here: the limit is %d bytes)\n", r.left, r.TextLimit); err != nil {
			return textError(err)
		}
	}
	return textError(text.Flush())
}

func textError(err error) error {
	if err != nil {
		return fmt.Errorf("keep the output: %w", err)
	}
	return nil
}

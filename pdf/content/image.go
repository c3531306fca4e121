package content

import (
	"cmp"

	"github.com/batchfleet/batchfleet/pdf/cos"
)

// image counts an image that is drawn.
func (in *interpreter) image() {
	if in.hidden == 0 {
		in.images++
	}
}

const endlessImage = "an inline image has no end"

// inlineImage reads an inline image from after BI to after EI.
func (s *stream) inlineImage(l *cos.Lexer) {
	s.image()
	d := cos.Dict{}
	var key cos.Name
	for {
		l.Recycle()
		switch t := l.Next(); t.Kind {
		case cos.EOF:
			s.file.Note(endlessImage)
			return
		case cos.NameToken:
			if key == "" {
				key = cos.Name(t.Bytes)
				continue
			}
			if d[key] == nil { // of an array the first
				d[key] = cos.Name(t.Bytes)
			}
			key = ""
		case cos.Integer, cos.Real:
			d[key], key = t.Int(), ""
		case cos.Keyword:
			if string(t.Bytes) == "ID" {
				if !l.SkipInlineImage(inlineEnd(d)) {
					s.file.Note(endlessImage)
				}
				return
			}
			d[key], key = string(t.Bytes) == "true", ""
		case cos.StringToken, cos.ArrayOpen, cos.ArrayClose, cos.DictOpen, cos.DictClose:
		}
	}
}

// inlineEnd returns what the dictionary of an inline image says about the end
// of its data.
func inlineEnd(d cos.Dict) cos.InlineImage {
	get := func(short, long cos.Name) cos.Object { return cmp.Or(d[short], d[long]) }
	switch get("F", "Filter") {
	case nil:
	case cos.Name("AHx"), cos.Name("ASCIIHexDecode"):
		return cos.InlineImage{End: ">"}
	case cos.Name("A85"), cos.Name("ASCII85Decode"):
		return cos.InlineImage{End: "~>"}
	default:
		return cos.InlineImage{}
	}
	const most = 1 << 24 // in one direction; an inline image has some 4 KB
	width, _ := get("W", "Width").(int)
	height, _ := get("H", "Height").(int)
	bits, _ := get("BPC", "BitsPerComponent").(int)
	components := 0 // of a color space that is a resource
	switch get("CS", "ColorSpace") {
	case cos.Name("G"), cos.Name("DeviceGray"), cos.Name("I"), cos.Name("Indexed"):
		components = 1
	case cos.Name("RGB"), cos.Name("DeviceRGB"):
		components = 3
	case cos.Name("CMYK"), cos.Name("DeviceCMYK"):
		components = 4
	}
	if get("IM", "ImageMask") == true {
		bits, components = 1, 1
	}
	if width <= 0 || height <= 0 || width > most || height > most || bits <= 0 || bits > 16 {
		return cos.InlineImage{}
	}
	return cos.InlineImage{Length: (width*bits*components + 7) / 8 * height}
}

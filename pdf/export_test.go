package pdf

// ReadInfo and ReadOutline are [Document.Info] and [Document.Outline] with the
// error that these hide: a panic.
func ReadInfo(d *Document) error {
	_, err := d.info()
	return err
}

// ReadOutline is described with [ReadInfo].
func ReadOutline(d *Document) error {
	_, err := d.outline()
	return err
}

package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// An avroChecker checks messages against one type.
type avroChecker struct{ root *avroNode }

func (c avroChecker) checkBinary(data []byte) error {
	r := avroReader{data: data, remaining: maxFreeValues + 8*len(data)}
	if err := r.value(c.root, 0); err != nil {
		return err
	}
	if len(r.data) > 0 {
		return fmt.Errorf("%w: %d bytes", errTrailing, len(r.data))
	}
	return nil
}

var errShort = errors.New("the data ends too early")

// An avroReader reads values and stores nothing of them.
type avroReader struct {
	data []byte // not read yet
	// remaining is how many more values there may be. It is more than any sane
	// message has, but a few bytes can claim any number of nulls.
	remaining int
}

// value reads a value of type n, depth levels down.
func (r *avroReader) value(n *avroNode, depth int) error {
	if depth > maxDepth {
		return errTooDeep
	}
	if r.remaining--; r.remaining < 0 {
		return errors.New("too many values for so few bytes")
	}
	switch n.kind {
	case "null":
		return nil
	case "boolean":
		return r.boolean()
	case "int":
		v, err := r.long()
		if err == nil && (v < math.MinInt32 || v > math.MaxInt32) {
			err = fmt.Errorf("%d is out of the range of an int", v)
		}
		return err
	case "long":
		_, err := r.long()
		return err
	case "float":
		return r.skip(4)
	case "double":
		return r.skip(8)
	case "fixed":
		return r.skip(int64(n.size))
	case "bytes":
		_, err := r.bytes()
		return err
	case "string":
		s, err := r.bytes()
		if err == nil && !utf8.Valid(s) {
			err = errors.New("a string is not UTF-8")
		}
		return err
	case "enum":
		return r.position(len(n.index), "symbol of an enum")
	case "union":
		i, err := r.long()
		if err != nil {
			return err
		}
		if i < 0 || i >= int64(len(n.branches)) {
			return fmt.Errorf("no branch %d of a union of %d", i, len(n.branches))
		}
		return r.value(n.branches[i], depth) // a union nests nothing
	case "record":
		for i := range n.fields {
			if err := r.value(n.fields[i].node, depth+1); err != nil {
				return inField(n.fields[i].name, err)
			}
		}
		return nil
	default:
		return r.blocks(n, depth)
	}
}

// blocks reads the items of an array or map.
func (r *avroReader) blocks(n *avroNode, depth int) error {
	for {
		count, err := r.long()
		if err != nil || count == 0 {
			return err
		}
		if count < 0 { // the size of the block in bytes follows
			if _, err := r.long(); err != nil {
				return err
			}
			if count == math.MinInt64 {
				return errors.New("impossible length of a block")
			}
			count = -count
		}
		for range count {
			if n.kind == "map" {
				key, err := r.bytes()
				if err != nil {
					return err
				}
				if !utf8.Valid(key) {
					return errors.New("the key of a map is not UTF-8")
				}
			}
			if err := r.value(n.items, depth+1); err != nil {
				return err
			}
		}
	}
}

func (r *avroReader) boolean() error {
	if len(r.data) == 0 {
		return errShort
	}
	if r.data[0] > 1 {
		return fmt.Errorf("byte %#x is not a boolean", r.data[0])
	}
	r.data = r.data[1:]
	return nil
}

// long reads a zig-zag variable-length integer.
func (r *avroReader) long() (int64, error) {
	v, n := binary.Varint(r.data)
	if n == 0 && len(r.data) < binary.MaxVarintLen64 {
		return 0, errShort
	}
	if n <= 0 {
		return 0, errors.New("a number is longer than 64 bits")
	}
	r.data = r.data[n:]
	return v, nil
}

func (r *avroReader) position(limit int, what string) error {
	i, err := r.long()
	if err == nil && (i < 0 || i >= int64(limit)) {
		err = fmt.Errorf("no %s %d: there are %d", what, i, limit)
	}
	return err
}

func (r *avroReader) bytes() ([]byte, error) {
	n, err := r.long()
	if err != nil {
		return nil, err
	}
	b := r.data
	if err := r.skip(n); err != nil {
		return nil, err
	}
	return b[:n], nil
}

func (r *avroReader) skip(n int64) error {
	if n < 0 {
		return fmt.Errorf("negative length %d", n)
	}
	if n > int64(len(r.data)) {
		return errShort
	}
	r.data = r.data[n:]
	return nil
}

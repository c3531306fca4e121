package cos

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
)

// openAES256 returns the file key under revision 5, an extension of Adobe's,
// or 6, that of ISO 32000-2 (algorithm 2.A). Passwords are UTF-8; they are not
// normalized with SASLprep, so an exotic spelling of one may be refused.
func (h *handler) openAES256(password []byte) ([]byte, error) {
	const saltAt, keySaltAt, end = 32, 40, 48
	if len(h.user) < end || len(h.owner) < end || len(h.userKey) < 32 || len(h.ownerKey) < 32 {
		return nil, errors.New("read encryption: O, U, OE or UE is too short")
	}
	password = password[:min(127, len(password))]
	user := h.user[:end]
	if bytes.Equal(h.hash(password, user[saltAt:keySaltAt], nil), user[:saltAt]) {
		return unwrap(h.hash(password, user[keySaltAt:], nil), h.userKey)
	}
	owner := h.owner[:end]
	if bytes.Equal(h.hash(password, owner[saltAt:keySaltAt], user), owner[:saltAt]) {
		return unwrap(h.hash(password, owner[keySaltAt:], user), h.ownerKey)
	}
	return nil, fmt.Errorf("open encryption: %w", ErrPassword)
}

// unwrap decrypts the file key with a key made from a password.
func unwrap(with, wrapped []byte) ([]byte, error) {
	key := make([]byte, 32)
	if !cbc(with, make([]byte, aes.BlockSize), key, wrapped[:32]) {
		return nil, errors.New("read encryption: key of wrong length")
	}
	return key, nil
}

// hash is algorithm 2.B; user is the U string when the owner's password is
// being hashed.
func (h *handler) hash(password, salt, user []byte) []byte {
	input := bytes.Join([][]byte{password, salt, user}, nil)
	sum := sha256.Sum256(input)
	key := sum[:]
	if h.revision < 6 {
		return key
	}
	for round := 0; ; round++ {
		block := bytes.Repeat(bytes.Join([][]byte{password, key, user}, nil), 64)
		c, err := aes.NewCipher(key[:16])
		if err != nil { // sixteen bytes are a key
			return nil
		}
		cipher.NewCBCEncrypter(c, key[16:32]).CryptBlocks(block, block)
		remainder := 0 // of the first 16 bytes as a number modulo 3; 256 ≡ 1
		for _, b := range block[:16] {
			remainder += int(b)
		}
		switch remainder % 3 {
		case 0:
			sum := sha256.Sum256(block)
			key = sum[:]
		case 1:
			sum := sha512.Sum384(block)
			key = sum[:]
		case 2:
			sum := sha512.Sum512(block)
			key = sum[:]
		}
		// At least 64 rounds; after that the last byte decides, which is at
		// most 255, so there are at most 288.
		if round >= 63 && int(block[len(block)-1]) <= round-31 {
			return key[:32]
		}
	}
}

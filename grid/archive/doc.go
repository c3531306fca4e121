// Package archive extracts the files that a job has made from its ZIP archive. The archive comes from a worker, so it is not trusted: what
// could leave the directory, fill the disk, or is no plain file is refused.
package archive

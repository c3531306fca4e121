// Package archive extracts the ZIP archive of a job's files. The archive comes from a worker, so it is not trusted: it is refused if an entry is no plain
// file or directory, could leave the directory, or if the files could fill the disk.
package archive

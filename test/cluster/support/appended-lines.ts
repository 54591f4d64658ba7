import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Reads the lines of a growing file, each once. Reading a log of thousands of requests from its start every second
 * would cost more than the program under test. A file that is replaced (log rotation) is read from its start.
 *
 * @returns a function that returns the whole lines since its last call
 */
export function appendedLines(file: string): () => readonly string[] {
  let position = 0
  return () => {
    const descriptor = openSync(file, 'r')
    try {
      const { size } = fstatSync(descriptor)
      if (size < position) position = 0
      const bytes = Buffer.alloc(size - position)
      const read = bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, position))
      // The text after the last newline may be a part of a line.
      const whole = read.subarray(0, read.lastIndexOf('\n') + 1)
      position += whole.length
      return whole.toString('utf8').split('\n').slice(0, -1)
    } finally {
      closeSync(descriptor)
    }
  }
}

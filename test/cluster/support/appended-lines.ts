import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Lines of a file that grows, each read once: a log of thousands of requests that is asked for every second would take
 * more of the machine than what is being measured. A file that is made anew (a log's rotation) is read from its start.
 *
 * @returns what gives the whole lines since the last call
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
      // Behind the last end of a line may be a part of one.
      const whole = read.subarray(0, read.lastIndexOf('\n') + 1)
      position += whole.length
      return whole.toString('utf8').split('\n').slice(0, -1)
    } finally {
      closeSync(descriptor)
    }
  }
}

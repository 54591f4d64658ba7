/**
 * Splits the output of a process that runs several test files (several.ts). Gives whole lines, because uvu writes lines
 * in pieces, and the process's other stream may be read between two of them.
 */

/** The line behind the output of a file: the CPU seconds of the process so far, and whether no other file follows. */
const END = /\0a test file has ended after ([\d.]+) CPU seconds, (the last|another follows)\n/

export const formatEnd = (cpu: number, isLast: boolean): string =>
  `\0a test file has ended after ${cpu.toFixed(2)} CPU seconds, ${isLast ? 'the last' : 'another follows'}\n`

interface Parts {
  /** Called with each text and the index of its file. Only the end of a file's output may lack its line feed. */
  text(text: string, file: number): void
  /** Called at the end of each file. */
  end(cpu: number, isLast: boolean): void
}

/** One stream of the process. */
export class SplitOutput {
  readonly #parts: Parts
  #file = 0
  #held = ''

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Takes a piece of the stream. */
  take(piece: string): void {
    let rest = this.#held + piece
    this.#held = rest
    if (!piece.includes('\n')) return
    for (let found = END.exec(rest); found !== null; found = END.exec(rest)) {
      this.#give(rest.slice(0, found.index))
      const isLast = found[2] === 'the last'
      // What the process says at its end belongs to the last file.
      if (!isLast) this.#file += 1
      this.#parts.end(Number(found[1]), isLast)
      rest = rest.slice(found.index + found[0].length)
    }
    const whole = rest.lastIndexOf('\n') + 1
    this.#held = rest.slice(whole)
    this.#give(rest.slice(0, whole))
  }

  /** Gives a line that has no end. */
  end(): void {
    this.#give(this.#held)
    this.#held = ''
  }

  #give(text: string): void {
    if (text !== '') this.#parts.text(text, this.#file)
  }
}

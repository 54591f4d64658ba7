import { AnswerScanner } from '../../mcp/answer-scanner.ts'

/**
 * Reads a message that is too large to be taken to its end, for what it is and for its id: many servers write an
 * answer's id behind the result.
 */
export class DroppedMessage {
  readonly #scanner = new AnswerScanner()

  scan(bytes: Buffer): void {
    this.#scanner.scan(bytes, [])
  }

  /** JSON text of the id, where it is a JSON-RPC answer. */
  get answerTo(): string | undefined {
    return this.#scanner.complete && this.#scanner.isAnswer ? this.#scanner.id : undefined
  }

  /** JSON text of the id, where it is a request. */
  get requestId(): string | undefined {
    return this.#scanner.complete && this.#scanner.hasMethod ? this.#scanner.id : undefined
  }
}

import type { PublicError } from '../../server/errors.ts'

interface FailureDetail {
  readonly isFinal?: boolean
  readonly answer?: PublicError | undefined
}

/** A step has failed; the message is for the client. */
export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  /** Another attempt would fail alike. */
  readonly isFinal: boolean
  /** What the client is answered where the workflow ends by it; undefined: an error result. */
  readonly answer: PublicError | undefined

  constructor(message: string, { isFinal = false, answer }: FailureDetail = {}) {
    super(message)
    this.isFinal = isFinal
    this.answer = answer
  }
}

import type { PublicError } from '../../server/errors.ts'

interface FailureDetail {
  readonly isFinal?: boolean
  readonly answer?: PublicError | undefined
}

/** The failure of a step; the message is for the client. */
export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  /** Tells that another attempt would fail in the same way. */
  readonly isFinal: boolean
  /** The error with which a client is answered if the workflow ends by it; undefined: an error result. */
  readonly answer: PublicError | undefined

  constructor(message: string, { isFinal = false, answer }: FailureDetail = {}) {
    super(message)
    this.isFinal = isFinal
    this.answer = answer
  }
}

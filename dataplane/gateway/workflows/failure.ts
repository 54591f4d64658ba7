/** A step has failed; the message is for the client. */
export class StepFailure extends Error {
  override readonly name = 'StepFailure'
  /** Another attempt would fail alike. */
  readonly isFinal: boolean

  constructor(message: string, { isFinal = false }: { readonly isFinal?: boolean } = {}) {
    super(message)
    this.isFinal = isFinal
  }
}

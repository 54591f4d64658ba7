/**
 * The end of the attempts at a step that comes before their own. In place of an AbortController with a listener, which
 * takes a tenth of what else a step costs; there is one for whoever needs it.
 */
export class Ending {
  /** Why; undefined until it comes. */
  reason: Error | undefined
  /** Called when it comes, where it hasn't yet: what is under way is to end. */
  onEnd: (() => void) | undefined
  #controller: AbortController | undefined

  /** The first call counts. */
  end(reason: Error): void {
    if (this.reason !== undefined) return
    this.reason = reason
    this.#controller?.abort(reason)
    this.onEnd?.()
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.reason !== undefined) this.#controller.abort(this.reason)
    }
    return this.#controller.signal
  }
}

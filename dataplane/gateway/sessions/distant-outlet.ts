import type { SessionBus, Streamed } from './bus.ts'
import type { Outlet } from './event-log.ts'

/** Redis cuts off who is told more than it takes: a larger answer can't be given by way of another replica. */
const LARGEST = 4 * 1024 * 1024

interface DistantOutletOptions {
  readonly bus: SessionBus
  /** Names it there. */
  readonly follow: string
  /** The replica that has the client. */
  readonly to: string
  onOver(): void
}

/** Takes the events of a stream to the replica that its client has come back to. */
export class DistantOutlet implements Outlet {
  readonly #options: DistantOutletOptions
  #parts: Buffer[] = []
  #size = 0
  #id: string | undefined

  constructor(options: DistantOutletOptions) {
    this.#options = options
  }

  #send(streamed: Streamed): void {
    const { bus, follow, to } = this.#options
    void bus.send({ kind: 'stream', follow, ...streamed }, to)
  }

  event(data: Buffer, id?: string): boolean {
    this.#send({ what: 'event', id, text: data.toString('latin1') })
    return true
  }

  part(data: Buffer, id?: string): boolean {
    this.#id = id
    this.#size += data.length
    if (this.#size <= LARGEST) this.#parts.push(data)
    else this.#parts = []
    return true
  }

  onceFree(next: () => void): void {
    next()
  }

  sign(): void {
    this.#send({ what: 'sign' })
  }

  end(): void {
    if (this.#size > LARGEST) {
      this.cut()
      return
    }
    if (this.#size > 0) this.event(Buffer.concat(this.#parts), this.#id)
    this.#send({ what: 'end' })
    this.#options.onOver()
  }

  cut(): void {
    this.#send({ what: 'lost' })
    this.#options.onOver()
  }
}

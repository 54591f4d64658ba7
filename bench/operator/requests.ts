/** Reads the operator's requests to the API server from the audit log. */
import { setTimeout as delay } from 'node:timers/promises'
import type { AuditedRequest, ControlPlane } from '../../test/cluster/support/control-plane.ts'
import { OPERATOR_USER } from '../../test/cluster/support/operator-process.ts'

/** Milliseconds without a write after which nothing more is expected. */
const QUIET_MS = 4_000
const DEADLINE_MS = 300_000

const isWrite = ({ verb }: AuditedRequest) => !['get', 'list', 'watch'].includes(verb)
const isOfWork = ({ resource }: AuditedRequest) => resource !== 'leases'

/** The operator's requests from now on. */
export class Requests {
  readonly #plane: ControlPlane
  readonly #from: number
  readonly started = Date.now()

  constructor(plane: ControlPlane) {
    this.#plane = plane
    this.#from = plane.requests().length
  }

  all(): readonly AuditedRequest[] {
    return this.#plane
      .requests()
      .slice(this.#from)
      .filter(({ user }) => user === OPERATOR_USER)
  }

  async quiet(): Promise<number> {
    const end = Date.now() + DEADLINE_MS
    for (;;) {
      const writes = this.all().filter((request) => isWrite(request) && isOfWork(request))
      const last = writes.reduce((latest, { at }) => Math.max(latest, Date.parse(at)), this.started)
      if (Date.now() - last > QUIET_MS) return (last - this.started) / 1000
      if (Date.now() > end) throw new Error(`the operator still writes after ${DEADLINE_MS / 1000} s`)
      await delay(1_000)
    }
  }

  /** Returns lines such as `patch configmaps 550`, the most frequent first. */
  table(): readonly string[] {
    const counts = new Map<string, number>()
    for (const { verb, resource, subresource, code } of this.all()) {
      const what = `${verb} ${resource}${subresource ? `/${subresource}` : ''}${code >= 400 ? ` (${code})` : ''}`
      counts.set(what, (counts.get(what) ?? 0) + 1)
    }
    return [...counts].sort(([, a], [, b]) => b - a).map(([what, count]) => `${String(count).padStart(7)}  ${what}`)
  }

  summary(): string {
    const counts = new Map<string, number>()
    for (const { verb } of this.all()) if (verb !== 'watch') counts.set(verb, (counts.get(verb) ?? 0) + 1)
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
    return `${total} requests (${[...counts].map(([verb, count]) => `${verb} ${count}`).join(', ')})`
  }
}

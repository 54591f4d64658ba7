import type { Session } from './session.ts'

/** Resources that sessions have watched at backends that are gone, until others have them. */
export class Unwatched {
  readonly #uris = new Map<Session, Set<string>>()

  add(session: Session, uris: readonly string[]): void {
    if (uris.length === 0) return
    const all = this.#uris.get(session) ?? new Set()
    for (const uri of uris) all.add(uri)
    this.#uris.set(session, all)
  }

  /** Tries each once more. `watch` gives false where it is to be tried again; what throws is given up. */
  retry(isLive: (session: Session) => boolean, watch: (session: Session, uri: string) => boolean): void {
    for (const [session, uris] of this.#uris) {
      for (const uri of uris) if (!isLive(session) || isDone(() => watch(session, uri))) uris.delete(uri)
      if (uris.size === 0) this.#uris.delete(session)
    }
  }
}

/** A client that has too much of its share used up watches no more. */
function isDone(watch: () => boolean): boolean {
  try {
    return watch()
  } catch {
    return true
  }
}

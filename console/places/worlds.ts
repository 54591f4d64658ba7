import { LRUCache } from 'lru-cache'
import type { KubernetesObject } from '../../operator/model/index.ts'
import type { World } from './place.ts'

/** The objects that were read for a viewer, and the time of the next request. */
export interface ViewerEntry {
  /** The namespaces that were asked for. */
  readonly namespaces: string
  world: World | undefined
  reading: Promise<World> | undefined
  /** No request is sent before this time (milliseconds since 1970). */
  notBefore: number
}

/** The memory for the objects of a world that is being read. */
export interface Reservation {
  readonly bytes: number
  /** Reserves memory for an object. Returns false if the viewer, or all viewers together, would exceed the limit. */
  add(bytes: number): boolean
  /** Ends the reading. The reserved memory is freed, unless the world was kept. */
  release(): void
}

const MOST_VIEWERS = 64
/** The limit of all objects, in bytes of JSON. In memory they take about three times as much. */
const MOST_BYTES = 64 * 1024 * 1024
/** A viewer's share. Worlds that others are reading can't be evicted, so one viewer gets no more than this part. */
const SHARE = 1 / 4

/** The worlds of viewers, in limited memory. The least recently used world is evicted first. */
export class Worlds {
  readonly #most: number
  readonly #kept = new LRUCache<string, ViewerEntry>({ max: MOST_VIEWERS })
  /** The size of each kept world, in bytes. */
  readonly #bytes = new WeakMap<ViewerEntry, number>()
  #held = 0

  constructor(mostBytes = MOST_BYTES) {
    this.#most = mostBytes
  }

  get(viewer: string): ViewerEntry | undefined {
    return this.#kept.get(viewer)
  }

  /** Creates an empty entry for a viewer in place of the earlier one. */
  begin(viewer: string, namespaces: string): ViewerEntry {
    const kept: ViewerEntry = { namespaces, world: undefined, reading: undefined, notBefore: 0 }
    for (const gone of [this.#kept.get(viewer), this.#kept.size >= MOST_VIEWERS ? this.#kept.pop() : undefined])
      if (gone !== undefined) this.#drop(gone)
    this.#kept.set(viewer, kept)
    return kept
  }

  /** Stores a world that was read. Its memory is already reserved by the reading. */
  keep(viewer: string, kept: ViewerEntry, { world, bytes }: { readonly world: World; readonly bytes: number }): void {
    this.#drop(kept)
    // A later request may have replaced this entry meanwhile.
    if (this.#kept.peek(viewer) !== kept) return
    kept.world = world
    this.#bytes.set(kept, bytes)
    this.#held += bytes
  }

  reserve(): Reservation {
    let taken = 0
    let isReleased = false
    return {
      get bytes() {
        return taken
      },
      add: (bytes) => {
        // Other lists of a reading that has failed may still arrive.
        if (isReleased || taken + bytes > this.#most * SHARE || !this.#make(bytes)) return false
        taken += bytes
        this.#held += bytes
        return true
      },
      release: () => {
        isReleased = true
        this.#held -= taken
        taken = 0
      },
    }
  }

  /** Evicts worlds to make room. Returns false if all memory belongs to worlds that are being read. */
  #make(bytes: number): boolean {
    if (this.#held + bytes > this.#most)
      for (const kept of this.#kept.rvalues()) {
        if (kept !== undefined) this.#drop(kept)
        if (this.#held + bytes <= this.#most) break
      }
    return this.#held + bytes <= this.#most
  }

  #drop(kept: ViewerEntry): void {
    this.#held -= this.#bytes.get(kept) ?? 0
    this.#bytes.delete(kept)
    kept.world = undefined
  }
}

/**
 * The objects that viewers have read, each once in memory. The API server gives equal objects the same uid and
 * resourceVersion (Kubernetes API concepts, resource versions), so a viewer's list can hold another list's object only
 * if its own is equal. Objects that no list holds any more are garbage-collected.
 */
export class SharedObjects {
  readonly #known = new Map<string, WeakRef<KubernetesObject>>()
  readonly #gone = new FinalizationRegistry<string>((key) => {
    if (this.#known.get(key)?.deref() === undefined) this.#known.delete(key)
  })

  /** Returns the equal object that another list holds, or this one if there is none. `size`: characters of its JSON. */
  share(object: KubernetesObject, size: number): KubernetesObject {
    const { uid, resourceVersion } = object.metadata
    if (uid === undefined || resourceVersion === undefined) return object
    const key = `${uid} ${resourceVersion} ${size}`
    const known = this.#known.get(key)?.deref()
    if (known !== undefined) return known
    this.#known.set(key, new WeakRef(object))
    this.#gone.register(object, key)
    return object
  }
}

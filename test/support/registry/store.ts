import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import type { Publication } from '../../../dataplane/registry/store/database/records.ts'
import { openStore, type Store } from '../../../dataplane/registry/sync/open-store.ts'
import { recordLog } from '../kept-log.ts'
import { startPostgres, type TestPostgres } from '../network/postgres.ts'

export interface TestStore {
  readonly kind: Kind
  /** The store, which is empty when a test begins. */
  readonly store: Store
  /** Opens the same store again, like another replica or a restart. */
  again(): Promise<Store>
}

type Kind = 'SQLite' | 'PostgreSQL'

/** A store that the tests of a file use one after another. */
interface SharedStore {
  readonly store: Store
  open(): Promise<Store>
  close(): Promise<void>
}

let postgres: TestPostgres | undefined
let databases = 0
const shared = new Map<Kind, SharedStore>()

async function openShared(kind: Kind): Promise<SharedStore> {
  const stateDirectory = await mkdtemp(join(tmpdir(), 'portico-store-'))
  if (kind === 'PostgreSQL') postgres ??= await startPostgres()
  const url = await postgres?.database(`whole${++databases}`)
  const place = kind === 'SQLite' ? undefined : ({ url, sslMode: 'disable' } as const)
  const open = () => openStore({ stateDirectory, postgres: place }, recordLog().log)
  const store = await open()
  return {
    store,
    open,
    async close() {
      await store.close()
      await rm(stateDirectory, { recursive: true })
    },
  }
}

async function closeShared(kind: Kind): Promise<void> {
  const closing = shared.get(kind)
  shared.delete(kind)
  await closing?.close()
}

/** Empties a store. */
async function empty({ applySettings, reader, writer }: Store): Promise<void> {
  await applySettings({ sources: [], registries: [] })
  for (const { name } of await reader.registries()) await writer.removeRegistry({ name })
  for (const { name } of await reader.sources()) await writer.removeSource({ name })
}

interface StoreTestOptions {
  readonly kinds?: readonly Kind[]
  /** A database without data of earlier tests, including removed entries. */
  readonly fresh?: boolean
}

/**
 * Registers a test of the whole store, with its writer thread, for each database or for some. The tests of a file share
 * one store of each kind, because starting the thread costs more than most of them.
 */
export function onBothStores(
  name: string,
  run: (its: TestStore) => Promise<void>,
  { kinds = ['SQLite', 'PostgreSQL'], fresh = false }: StoreTestOptions = {},
): void {
  for (const kind of kinds)
    test(`${kind}: ${name}`, async () => {
      if (fresh) await closeShared(kind)
      const its = shared.get(kind) ?? (await openShared(kind))
      shared.set(kind, its)
      const opened: Store[] = []
      const again = async () => {
        const store = await its.open()
        opened.push(store)
        return store
      }
      try {
        await run({ kind, store: its.store, again })
        await empty(its.store)
      } catch (error) {
        // The next test starts with an empty store.
        await closeShared(kind)
        throw error
      } finally {
        for (const store of opened) await store.close()
      }
    })
}

/** Closes the shared stores; call it after all tests of a file. */
export async function endStores(): Promise<void> {
  for (const kind of shared.keys()) await closeShared(kind)
  await postgres?.close()
  postgres = undefined
}

/** Returns the published entries by `name@version`. */
export function publication(label: string, rest: Partial<Publication> = {}): Publication {
  const [name = '', version = '1.0.0'] = label.split('@')
  return {
    source: 'own',
    type: 'server',
    name,
    version,
    title: null,
    description: `About ${name}`,
    document: JSON.stringify({ name, version, description: `About ${name}` }),
    claims: {},
    at: new Date().toISOString(),
    ...rest,
  }
}

/** A managed source `own` in a registry `main`, beside synced sources. */
export async function manage(store: Store, others: readonly string[] = []): Promise<void> {
  await store.applySettings({
    sources: [
      { name: 'own', config: { managed: {} }, claims: {} },
      ...others.map((name) => ({ name, config: { managed: {} }, claims: {} })),
    ],
    registries: [{ name: 'main', sources: ['own', ...others], claims: {} }],
  })
}

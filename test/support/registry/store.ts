import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import type { Publication } from '../../../dataplane/registry/store/database/records.ts'
import { openStore, type Store } from '../../../dataplane/registry/sync/open-store.ts'
import { keptLog } from '../kept-log.ts'
import { startPostgres, type TestPostgres } from '../network/postgres.ts'

export interface TestStore {
  readonly kind: 'SQLite' | 'PostgreSQL'
  readonly store: Store
  /** Opens the same store once more, as another replica or after a restart. */
  again(): Promise<Store>
}

let postgres: TestPostgres | undefined
let databases = 0

/** Registers a test of the whole store, with its thread that writes, once for each database (or for some). */
export function onBothStores(
  name: string,
  run: (its: TestStore) => Promise<void>,
  kinds: readonly TestStore['kind'][] = ['SQLite', 'PostgreSQL'],
): void {
  for (const kind of kinds)
    test(`${kind}: ${name}`, async () => {
      const stateDirectory = await mkdtemp(join(tmpdir(), 'portico-store-'))
      if (kind === 'PostgreSQL') postgres ??= await startPostgres()
      const url = await postgres?.database(`whole${++databases}`)
      const place = kind === 'SQLite' ? undefined : ({ url, sslMode: 'disable' } as const)
      const opened: Store[] = []
      const again = async () => {
        const store = await openStore({ stateDirectory, postgres: place }, keptLog().log)
        opened.push(store)
        return store
      }
      try {
        await run({ kind, store: await again(), again })
      } finally {
        for (const store of opened) await store.close()
        await rm(stateDirectory, { recursive: true })
      }
    })
}

/** To be called after all tests of a file. */
export async function endStores(): Promise<void> {
  await postgres?.close()
}

/** What is published, by `name@version`. */
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

/** A managed source `own` in a registry `main`, beside others that are synced. */
export async function manage(store: Store, others: readonly string[] = []): Promise<void> {
  await store.applySettings({
    sources: [
      { name: 'own', config: { managed: {} }, claims: {} },
      ...others.map((name) => ({ name, config: { managed: {} }, claims: {} })),
    ],
    registries: [{ name: 'main', sources: ['own', ...others], claims: {} }],
  })
}

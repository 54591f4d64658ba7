/**
 * A registry with a pod's memory reads four sources of 500,000 tiny entries each at once. Fails if it uses more memory
 * than that, or serves nobody else afterwards. Usage: registry.ts [entries of a source]
 */
import { eventually } from '../../support/eventually.ts'
import { registryFile, server } from '../../support/registry/registry.ts'
import { assertHolds, startAttackedRegistry } from '../../support/registry/under-attack.ts'

const LONGEST_MS = 30 * 60_000

const count = Number(process.argv[2] ?? 500_000)
const text = registryFile(Array.from({ length: count }, (_, index) => server(`x/n${index}`)))
const sources = ['a', 'b', 'c', 'd'].map((name) => ({ name, file: { path: '../house.json' } }))
const registry = await startAttackedRegistry(sources, (folder) => folder.write('house.json', text))
try {
  const isRead = async () =>
    (await registry.states()).every(({ state, servers }) => state === 'ok' && servers === count)
  await eventually('all sources are read', isRead, LONGEST_MS)
  await assertHolds(registry, `four sources of ${count} tiny entries`)
} finally {
  await registry.close()
}

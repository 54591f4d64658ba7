import { eventually } from '../eventually.ts'
import { registryFolder, runRegistry, type TestRegistry } from './registry.ts'

/** A test would wait for whole seconds: no source may be set to be synced more often. */
const HASTENED_BY = 8
const NOTHING = { sources: [], registries: [], auth: { mode: 'anonymous' } }

interface SourceOptions {
  readonly interval?: string
  readonly files?: Readonly<Record<string, string>>
  readonly rest?: object
}

let shared: TestRegistry | undefined

/**
 * A registry over one source, `own`, that is configured so; `own` need not have been synced when it resolves. The tests of a
 * file share one, which `close` empties: to start one costs more than most of them. An interval of a second is an eighth of
 * one.
 */
export async function registryOf(source: object, options: SourceOptions = {}): Promise<TestRegistry> {
  shared ??= await startEmpty()
  const registry = shared
  for (const [name, text] of Object.entries(options.files ?? {})) await registry.folder.write(name, text)
  await configure(registry, configOf(source, options))
  const first = registry.log.lines.length
  const empty = () => configure(registry, NOTHING)
  return {
    ...registry,
    log: {
      ...registry.log,
      get lines() {
        return registry.log.lines.slice(first)
      },
    },
    stop: empty,
    close: empty,
  }
}

/** The same as a registry of its own, which is started with it. Throws where the configuration won't do. */
export async function ownRegistryOf(source: object, options: SourceOptions = {}): Promise<TestRegistry> {
  const folder = await registryFolder()
  await folder.configure(configOf(source, options))
  return runRegistry(folder)
}

/** To be called after all tests of a file. */
export async function endRegistry(): Promise<void> {
  await shared?.close()
}

async function startEmpty(): Promise<TestRegistry> {
  const folder = await registryFolder()
  await folder.configure(NOTHING)
  return runRegistry(folder, { syncsHastenedBy: HASTENED_BY })
}

const configOf = (source: object, { interval = '1s', rest }: SourceOptions) => ({
  sources: [{ name: 'own', ...source, syncPolicy: { interval } }],
  registries: [{ name: 'main', sources: ['own'] }],
  auth: { mode: 'anonymous' },
  ...rest,
})

/** Configures a registry otherwise, and waits until that is in force. */
async function configure({ folder, status }: TestRegistry, config: object): Promise<void> {
  const { config: before } = await status()
  await folder.configure(config)
  await eventually('the configuration is in force', async () => {
    const { config: now, refused } = await status()
    if (refused.length > 0) throw new Error(`the configuration is refused: ${JSON.stringify(refused)}`)
    return now !== before
  })
}

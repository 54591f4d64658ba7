import {
  allTried,
  buildConfig,
  NOTHING,
  reconfigure,
  registryFolder,
  runRegistry,
  type TestRegistry,
} from './registry.ts'

/** Divides the sync intervals, whose minimum is a second, so that tests do not wait for whole seconds. */
const HASTENED_BY = 8

interface SourceOptions {
  readonly interval?: string
  readonly files?: Readonly<Record<string, string>>
  readonly rest?: object
}

let shared: TestRegistry | undefined

/**
 * Runs a registry over one source `own` with this configuration, without waiting for its first sync. The tests of a file
 * share one registry, which `close` empties, because starting one costs more than most of them. An interval of a second
 * becomes an eighth of a second.
 */
export const startRegistryWith = (source: object, options: SourceOptions = {}): Promise<TestRegistry> =>
  share(options.files ?? {}, configWith(source, options))

/** Runs the registry over these catalogs (source name: text of its file) in `main`, and waits until each is synced. */
export async function registryOver(catalogs: Readonly<Record<string, string>>): Promise<TestRegistry> {
  const paths = Object.fromEntries(Object.keys(catalogs).map((name) => [name, `${name}.json`]))
  const files = Object.fromEntries(Object.entries(catalogs).map(([name, text]) => [`${name}.json`, text]))
  const registry = await share(files, buildConfig(paths))
  await allTried(registry)
  await registry.ready()
  return registry
}

async function share(files: Readonly<Record<string, string>>, config: object): Promise<TestRegistry> {
  shared ??= await startEmpty()
  const registry = shared
  for (const [name, text] of Object.entries(files)) await registry.folder.write(name, text)
  const first = registry.log.lines.length
  await reconfigure(registry, config)
  const empty = () => reconfigure(registry, NOTHING)
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

/** Starts a registry that is not shared over the source. Throws if the configuration is refused. */
export async function startOwnRegistry(source: object, options: SourceOptions = {}): Promise<TestRegistry> {
  const folder = await registryFolder()
  await folder.configure(configWith(source, options))
  return runRegistry(folder)
}

/** Ends the shared registry; call it after all tests of a file. */
export async function endRegistry(): Promise<void> {
  await shared?.close()
  shared = undefined
}

async function startEmpty(): Promise<TestRegistry> {
  const folder = await registryFolder()
  await folder.configure(NOTHING)
  return runRegistry(folder, { syncsHastenedBy: HASTENED_BY })
}

const configWith = (source: object, { interval = '1s', rest }: SourceOptions) => ({
  sources: [{ name: 'own', ...source, syncPolicy: { interval } }],
  registries: [{ name: 'main', sources: ['own'] }],
  auth: { mode: 'anonymous' },
  ...rest,
})

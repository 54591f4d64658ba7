import { registryFolder, runRegistry, type TestRegistry } from './registry.ts'

/** Runs a registry over one source, `own`, that is configured so; `own` need not have been synced when it resolves. */
export async function registryOf(
  source: object,
  options: { interval?: string; files?: Readonly<Record<string, string>>; rest?: object } = {},
): Promise<TestRegistry> {
  const folder = await registryFolder()
  for (const [name, text] of Object.entries(options.files ?? {})) await folder.write(name, text)
  await folder.configure({
    sources: [{ name: 'own', ...source, syncPolicy: { interval: options.interval ?? '1s' } }],
    registries: [{ name: 'main', sources: ['own'] }],
    auth: { mode: 'anonymous' },
    ...options.rest,
  })
  return runRegistry(folder)
}

/** The thread that reads one long text. */
import { parentPort, workerData } from 'node:worker_threads'
import { parsedBy } from '../check/long-check.ts'
import type { ReadCall, Reader } from './aside.ts'

/** Each reader is loaded at its first use. */
const readers: Readonly<Record<Reader, () => Promise<(text: string) => unknown>>> = {
  async yaml() {
    const { readYaml, valueOfYaml } = await import('./yaml.ts')
    return (text) => valueOfYaml(readYaml(text))
  },
  gateway: async () => (await import('./gateway-findings.ts')).parseGateway,
  registry: async () => (await import('./registry.ts')).parseRegistry,
  async key() {
    const { compileKeyPattern } = await import('../check/key-pattern.ts')
    return (text) => {
      const [pattern, key] = JSON.parse(text) as readonly [string, string]
      return compileKeyPattern(pattern).matches(key)
    }
  },
}

async function answer({ reader, text }: ReadCall): Promise<void> {
  parentPort?.postMessage(parsedBy(await readers[reader](), text))
}

answer(workerData as ReadCall).catch((error) =>
  // Ends the thread; its starter gets the event.
  setImmediate(() => {
    throw error
  }),
)

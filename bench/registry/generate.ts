/** Makes catalogs for benchmarks and tests from a seed, so that two runs see the same. */

interface GenerateOptions {
  readonly names: number
  /** Versions per name, on average. */
  readonly versions: number
  /** Smallest and largest document, in characters of JSON; most are small, as in public catalogs. */
  readonly bytes: readonly [number, number]
  readonly seed?: number
  /** Part of each name: catalogs share names only if they have the same prefix. */
  readonly prefix?: string
  readonly domain?: string
}

export const WORDS =
  'query browser file calendar ticket payment weather graph vector search image audio repository cluster metric trace secret policy queue table sheet mail chat map route translate summarise review deploy schedule'.split(
    ' ',
  )

export interface Server {
  readonly $schema: string
  readonly name: string
  readonly description: string
  readonly title: string
  readonly version: string
  readonly remotes: readonly { readonly type: string; readonly url: string }[]
  readonly _meta: Record<string, unknown>
}

export function* generateServers({
  names,
  versions,
  bytes,
  seed = 1,
  prefix = 'catalog',
  domain = 'com.example',
}: GenerateOptions): Iterable<Server> {
  const random = randomFrom(seed)
  const randomBelow = (limit: number) => Math.floor(random() * limit)
  const pickWord = () => WORDS[randomBelow(WORDS.length)] as string
  for (let index = 0; index < names; index++) {
    const number = (index * 7919) % names
    const name = `${domain}.${makeName(prefix, number)}`
    const title = `${capital(pickWord())} ${capital(pickWord())}`
    const count = Math.max(1, Math.round(versions * 2 * random()))
    for (let minor = 0; minor < count; minor++) {
      const tools = makeTools(bytes[0] * (bytes[1] / bytes[0]) ** (random() ** 3), pickWord)
      yield {
        $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
        name,
        description: `Lets a model ${pickWord()} and ${pickWord()} by ${pickWord()} number ${number}`,
        title,
        version: `1.${minor}.${randomBelow(10)}`,
        remotes: [{ type: 'streamable-http', url: `https://${pickWord()}-${number}.example.com/mcp` }],
        _meta: {
          'io.modelcontextprotocol.registry/publisher-provided': {
            'com.example': { [name]: { tags: [pickWord(), pickWord()], tools } },
          },
        },
      }
    }
  }
}

export function registryFile(servers: Iterable<object>): string {
  return JSON.stringify({ version: '1.0.0', meta: {}, data: { servers: [...servers] } })
}

function makeTools(characters: number, word: () => string): readonly object[] {
  const tools: object[] = []
  for (let left = characters; left > 0; left -= 120)
    tools.push({
      name: `${word()}_${word()}`,
      description: `Will ${word()} the ${word()} of a ${word()}`,
      readOnly: true,
    })
  return tools
}

function makeName(prefix: string, number: number): string {
  const pickWord = (index: number) => WORDS[index % WORDS.length]
  return `${pickWord(number * 13)}/${pickWord(number * 7 + 3)}-${prefix}-${number}`
}

const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

/** mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

import { compileGlob } from '../glob.ts'
import type { Finding, Findings } from '../load.ts'

export function* originFindings(origins: readonly string[], at: string): Findings {
  for (const [index, origin] of origins.entries())
    if (!isOrigin(origin))
      yield { pointer: `${at}/${index}`, message: 'is neither * nor an origin such as https://example.com' }
}

/** Yields the reason why a text can't be compiled, if it can't; `before`: the words before the reason. */
export function* unusable(compile: () => unknown, pointer: string, before = ''): Findings {
  try {
    compile()
  } catch (error) {
    yield { pointer, message: `${before}${(error as Error).message}` }
  }
}

export function* globFindings(globs: readonly string[] = [], at: string, before?: string): Findings {
  for (const [index, glob] of globs.entries()) yield* unusable(() => compileGlob(glob), `${at}/${index}`, before)
}

/** Tells whether a text is an origin. Those of browser extensions are opaque in the URL standard. */
function isOrigin(text: string): boolean {
  if (text === '*') return true
  const url = URL.parse(text)
  if (url === null || text.includes('*')) return false
  return url.origin === 'null' ? /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/.test(text) : url.origin === text
}

/** Returns a finding for each repeated key. `field` is the key's pointer inside an item. */
export function duplicates<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  pointer: string,
  field = '',
): readonly Finding[] {
  const first = new Map<string, number>()
  return items.flatMap((item, index) => {
    const key = keyOf(item)
    const earlier = first.get(key)
    if (earlier === undefined) {
      first.set(key, index)
      return []
    }
    return [{ pointer: `${pointer}/${index}${field}`, message: `is the same as ${pointer}/${earlier}${field}` }]
  })
}

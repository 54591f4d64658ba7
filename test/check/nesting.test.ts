import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { deepNesting } from '../../check/nesting.ts'

const level = (inner: string) => `if (n) {\n${inner}\n}`
const nest = (depth: number, inner = 'n++'): string => (depth === 0 ? inner : level(nest(depth - 1, inner)))

/** Bodies of a function, with the line of a body that nests too deeply. */
const bodies: readonly (readonly [what: string, body: string, line: number | undefined])[] = [
  ['four levels', nest(4), undefined],
  ['five levels', nest(5), 5],
  ['six levels, told once', nest(6), 5],
  ['a loop as the fifth', nest(4, 'for (const one of []) n = one'), 5],
  ['another kind of loop', nest(4, 'while (n) n--'), 5],
  ['a loop that looks at its end', nest(4, 'do n--; while (n)'), 5],
  ['a switch', nest(4, 'switch (n) {}'), 5],
  ['a try', nest(4, 'try { n++ } finally { n-- }'), 5],
  ['an else-if, which is no deeper', nest(3, 'if (n) n++\nelse if (n) n--\nelse if (n) n++'), undefined],
  ['an if in an else, which is', nest(3, 'if (n) n++\nelse {\nif (n) n--\n}'), 6],
  ['a function, which begins anew', nest(3, '[1].map(() => {\nif (n) n++\n})'), undefined],
  ['a place with its reason', nest(4, '// nesting: a hot loop\nif (n) n++'), undefined],
  ['a place without one', nest(4, '// nesting:\nif (n) n++'), 6],
]

test('code that nests deeper than four levels is refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'nesting-'))
  try {
    const files = bodies.map(([, body], index) => [
      `body-${index}.ts`,
      `export function one(n: number) {\n${body}\n}\n`,
    ])
    for (const [name, text] of files) await writeFile(join(folder, name as string), text as string)
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: { noEmit: true, strict: true } }))
    const found = deepNesting(join(folder, 'tsconfig.json'))
    const expected = bodies.flatMap(([, , line], index) =>
      line === undefined ? [] : [`body-${index}.ts:${line + 1}: nests deeper than 4 levels`],
    )
    assert.equal([...found].sort(), expected.sort())
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('no source nests deeper than four levels', () => {
  assert.equal(deepNesting(join(import.meta.dirname, '..', '..', 'tsconfig.json')), [])
})

test.run()

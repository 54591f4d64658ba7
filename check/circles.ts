import type { Imports } from './imports.ts'

/** One file on the way through the graph (Tarjan's strongly connected components). */
interface Visit {
  readonly file: string
  readonly index: number
  low: number
  readonly rest: Iterator<string>
}

/** Files that import each other in a circle, each circle sorted; types count. Linear in files and imports. */
export function circles(imports: Imports): readonly (readonly string[])[] {
  const found: string[][] = []
  const indexes = new Map<string, number>()
  const stack: string[] = []
  const onStack = new Set<string>()
  const way: Visit[] = []
  const enter = (file: string): void => {
    way.push({ file, index: indexes.size, low: indexes.size, rest: (imports.get(file) ?? []).values() })
    indexes.set(file, indexes.size)
    stack.push(file)
    onStack.add(file)
  }
  const leave = ({ file, index, low }: Visit): void => {
    way.pop()
    const before = way.at(-1)
    if (before !== undefined) before.low = Math.min(before.low, low)
    if (low !== index) return
    const circle = stack.splice(stack.lastIndexOf(file))
    for (const member of circle) onStack.delete(member)
    if (circle.length > 1 || imports.get(file)?.includes(file)) found.push(circle.sort())
  }
  for (const start of imports.keys()) {
    if (!indexes.has(start)) enter(start)
    for (let visit = way.at(-1); visit !== undefined; visit = way.at(-1)) {
      const next = visit.rest.next()
      if (next.done) leave(visit)
      else if (!indexes.has(next.value)) enter(next.value)
      else if (onStack.has(next.value)) visit.low = Math.min(visit.low, indexes.get(next.value) as number)
    }
  }
  return found
}

/**
 * Compiles a glob over names: `*` is any run of characters, `/` among them; `?` is one character; `[a-z]` and `[!a-z]`
 * are classes; everything else is itself. Throws a TypeError that says why where it is none.
 */
export function compileGlob(glob: string): (name: string) => boolean {
  const source = glob.replace(PART, (part) => {
    if (part.startsWith('*')) return '.*'
    if (part === '?') return '.'
    if (part === '[') throw new TypeError('has a [ without its ]')
    return part.startsWith('[') ? classOf(part) : part.replace(/[\\^$.+(){}|\]]/g, '\\$&')
  })
  const pattern = expression(`^${source}$`)
  return (name) => pattern.test(name)
}

/** A run of stars (as one: many would make a long search), one character, a class, plain text, a bracket left open. */
const PART = /\*+|\?|\[!?[^\]]+\]|[^*?[]+|\[/g

function classOf(part: string): string {
  const negated = part.startsWith('[!')
  const members = part.slice(negated ? 2 : 1, -1).replace(/[\\^[]/g, '\\$&')
  return `[${negated ? '^' : ''}${members}]`
}

function expression(source: string): RegExp {
  try {
    return new RegExp(source, 's')
  } catch {
    throw new TypeError('has a class whose range runs backwards')
  }
}

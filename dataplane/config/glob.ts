/** One step of a pattern: a run of any characters, or one character that passes. */
type Step = 'any run' | ((code: number) => boolean)

/** A class with its brackets; what follows a [ that is never closed is none. */
const CLASS = /\[(!?)([^\]]+)\]/y

/**
 * Compiles a glob over names: `*` is any run of characters, `/` among them; `?` is one character; `[a-z]` and `[!a-z]`
 * are classes; everything else is itself. Throws a TypeError that says why where it is none.
 *
 * A match takes no more steps than the lengths of pattern and name multiplied, whatever they are: patterns come from
 * outside, and an expression that backtracks would take longer than anybody waits.
 */
export function compileGlob(glob: string): (name: string) => boolean {
  const steps = stepsOf(glob)
  return function matchesGlob(name) {
    let step = 0
    let at = 0
    // Where to go on after the last run of any characters, should it have been too short.
    let retryStep = -1
    let retryAt = 0
    while (at < name.length) {
      const wanted = steps[step]
      if (wanted === 'any run') {
        retryStep = ++step
        retryAt = at
      } else if (wanted?.(name.charCodeAt(at))) {
        step++
        at++
      } else if (retryStep >= 0) {
        step = retryStep
        at = ++retryAt
      } else return false
    }
    while (steps[step] === 'any run') step++
    return step === steps.length
  }
}

function stepsOf(glob: string): readonly Step[] {
  const steps: Step[] = []
  for (let at = 0; at < glob.length; at++) {
    const character = glob[at] as string
    if (character === '*') {
      if (steps.at(-1) !== 'any run') steps.push('any run')
    } else if (character === '?') steps.push(() => true)
    else if (character === '[') {
      CLASS.lastIndex = at
      const [whole = '', not, members = ''] = CLASS.exec(glob) ?? []
      if (whole === '') throw new TypeError('has a [ without its ]')
      steps.push(classOf(members, not === '!'))
      at += whole.length - 1
    } else {
      const code = character.charCodeAt(0)
      steps.push((other) => other === code)
    }
  }
  return steps
}

function classOf(members: string, negated: boolean): (code: number) => boolean {
  const ranges: (readonly [number, number])[] = []
  for (let at = 0; at < members.length; at++) {
    const first = members.charCodeAt(at)
    const isRange = members[at + 1] === '-' && at + 2 < members.length
    if (isRange) at += 2
    const last = members.charCodeAt(at)
    if (last < first) throw new TypeError('has a class whose range runs backwards')
    ranges.push([first, last])
  }
  return (code) => ranges.some(([first, last]) => first <= code && code <= last) !== negated
}

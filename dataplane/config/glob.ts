type Step = 'any run' | ((code: number) => boolean)

/** A class with its brackets. A [ that is never closed begins no class. */
const CLASS = /\[(!?)([^\]]+)\]/y

/**
 * Compiles a glob: `*` is any run of characters, including `/`; `?` one character; `[a-z]` and `[!a-z]` classes. Throws
 * a TypeError with the reason. A match takes at most as many steps as the lengths of pattern and name multiplied.
 */
export function compileGlob(glob: string): (name: string) => boolean {
  const steps = parseSteps(glob)
  return function matchesGlob(name) {
    let step = 0
    let at = 0
    // The place to resume after the last run of any characters, in case that run was too short.
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

function parseSteps(glob: string): readonly Step[] {
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
      steps.push(parseClass(members, not === '!'))
      at += whole.length - 1
    } else {
      const code = character.charCodeAt(0)
      steps.push((other) => other === code)
    }
  }
  return steps
}

function parseClass(members: string, negated: boolean): (code: number) => boolean {
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

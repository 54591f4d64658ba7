/**
 * Characters that a reviewer does not see and a model reads: controls, zero-width and bidirectional signs, fillers,
 * variation selectors, tags (U+E0000 to U+E007F), and Unicode's class of format characters.
 */
const HIDDEN =
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: the marks are meant one by one
  /[\u0080-\u009f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e01ef}]|\p{Cf}|\p{Cs}/gu

const codeOf = (character: string): number => character.codePointAt(0) as number

const escaped = (character: string): string => `\\u{${codeOf(character).toString(16)}}`

export const escapeHidden = (text: string): string => text.replace(HIDDEN, escaped)

export const hasHidden = (text: string): boolean => text.search(HIDDEN) >= 0

/** Returns the ASCII text that tag characters spell (U+E0000 plus ASCII); empty if there is none. */
export const decodeTags = (text: string): string =>
  [...text]
    .map(codeOf)
    .filter((code) => code >= 0xe0020 && code < 0xe007f)
    .map((code) => String.fromCharCode(code - 0xe0000))
    .join('')

export const codePoints = (text: string): string =>
  [...text].map((character) => `U+${codeOf(character).toString(16).toUpperCase().padStart(4, '0')}`).join(' ')

/** Puts an untrusted text on one line that a terminal shows as it is. */
export const shown = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what is escaped
  escapeHidden(text).replace(/[\u0000-\u001f\u007f]/g, (one) => (one === '\n' ? '\\n' : escaped(one)))

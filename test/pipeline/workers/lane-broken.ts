/** A lane whose module does not load. */
function load(): () => void {
  throw new Error('this module does not load')
}

export default load()

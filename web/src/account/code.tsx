/** A value to copy, with its label. */
export const Code = ({ label, text }: { label: string; text: string }) => (
  <div className="field">
    <span className="soft">{label}</span>
    <pre tabIndex={0} aria-label={label}>
      {text}
    </pre>
  </div>
)

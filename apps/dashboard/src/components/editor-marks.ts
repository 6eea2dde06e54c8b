// Where a run failed, shown beneath its line until the text changes.
import { StateEffect, StateField, type Text } from '@codemirror/state';
import { Decoration, type DecorationSet, EditorView, WidgetType } from '@codemirror/view';

export interface Mark {
  line: number;
  message: string;
  tone: 'bad' | 'warn';
}

class Message extends WidgetType {
  constructor(readonly mark: Mark) {
    super();
  }
  override eq(other: Message) {
    return other.mark.message === this.mark.message && other.mark.tone === this.mark.tone;
  }
  toDOM() {
    const element = document.createElement('div');
    element.className = `cm-runError ${this.mark.tone}`;
    element.textContent = this.mark.message;
    return element;
  }
}

export const setMark = StateEffect.define<Mark | null>();

function decorate(doc: Text, mark: Mark | null): DecorationSet {
  if (!mark || mark.line < 1 || mark.line > doc.lines) return Decoration.none;
  const line = doc.line(mark.line);
  return Decoration.set([
    Decoration.line({ class: `cm-runLine ${mark.tone}` }).range(line.from),
    Decoration.widget({ widget: new Message(mark), block: true, side: 1 }).range(line.to),
  ]);
}

export const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setMark)) return decorate(transaction.newDoc, effect.value);
    }
    return transaction.docChanged ? Decoration.none : value;
  },
  provide: (field) => EditorView.decorations.from(field),
});

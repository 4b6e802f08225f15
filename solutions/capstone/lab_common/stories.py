"""The text that the capstone learns from: short stories made by rule, as many as are wanted, in English and in Korean.

What a story asks at its end (where is the ball?) was said some sentences before, so the last token alone does not tell
what comes next: a model that looks back does better than any table of pairs.
"""

from __future__ import annotations

import random

STORIES = 3000  # some 700,000 letters of English, 430,000 syllables of Korean
FEW = 600  # what a lab learns from that has a minute
SEED = 20

EN = {
    "name": ["Mina", "Jun", "Ada", "Leo", "Nora", "Sami", "Yuna", "Otto", "Ines", "Theo"],
    "colour": ["red", "blue", "green", "yellow", "white", "black", "brown", "golden"],
    "thing": ["ball", "key", "hat", "cup", "book", "shoe", "lamp", "kite", "drum", "spoon"],
    "place": ["box", "basket", "drawer", "bag", "cupboard", "pot", "tent", "boat", "garden", "cellar"],
    "weather": [
        "it began to rain",
        "the wind was strong",
        "the sun came out",
        "it was getting dark",
        "snow was falling",
    ],
    "feeling": ["happy", "tired", "proud", "surprised", "glad", "hungry"],
}
KO = {
    "name": ["민아", "준서", "하늘", "도윤", "서연", "지호", "유나", "태민", "소라", "가람"],
    "colour": ["빨간", "파란", "노란", "하얀", "검은", "작은", "커다란", "오래된"],
    "thing": ["공", "열쇠", "모자", "컵", "책", "신발", "등불", "연", "북", "숟가락"],
    "place": ["상자", "바구니", "서랍", "가방", "찬장", "항아리", "천막", "배", "마당", "창고"],
    "weather": [
        "비가 내리기 시작했습니다",
        "바람이 세게 불었습니다",
        "해가 나왔습니다",
        "날이 어두워졌습니다",
        "눈이 왔습니다",
    ],
    "feeling": ["기뻤습니다", "피곤했습니다", "뿌듯했습니다", "놀랐습니다", "즐거웠습니다", "배고팠습니다"],
}
# The particle after a final consonant, and the one after a vowel.
PARTICLES = {"은": ("은", "는"), "이": ("이", "가"), "을": ("을", "를"), "과": ("과", "와")}


def text(language: str, stories: int = STORIES, seed: int = SEED) -> str:
    """So many stories in a language, `en` or `ko`, a blank line after each; the same for the same seed."""
    draw = random.Random(seed)
    tell = _korean if language == "ko" else _english
    return "\n\n".join(" ".join(tell(draw)) for _story in range(stories)) + "\n\n"


def _english(draw: random.Random) -> list[str]:
    one, other = draw.sample(EN["name"], 2)
    colour, thing, where, elsewhere = _facts(draw, EN)
    told = [
        draw.choice([f"{one} had a {colour} {thing}.", f"One day {one} found a {colour} {thing}."]),
        draw.choice([f"{one} put the {thing} in the {where}.", f"{one} hid it in the {where}."]),
    ]
    if draw.random() < 0.5:
        told.append(f"Then {draw.choice(EN['weather'])}.")
    if draw.random() < 0.5:
        told.append(f"Later {other} took the {thing} out of the {where} and put it in the {elsewhere}.")
        where = elsewhere
    told += draw.choice(
        [
            [f"{other} asked {one}: where is the {thing}?", f"{one} said: the {thing} is in the {where}."],
            [f"{one} asked {other}: have you seen the {thing}?", f"{other} said: look in the {where}."],
            [f"{one} and {other} were looking for the {thing}."],
        ]
    )
    told.append(f"They looked in the {where}, and there was the {colour} {thing}.")
    if draw.random() < 0.6:
        told.append(f"{one} was {draw.choice(EN['feeling'])}, and {other} was {draw.choice(EN['feeling'])}.")
    return told


def _korean(draw: random.Random) -> list[str]:
    one, other = draw.sample(KO["name"], 2)
    colour, thing, where, elsewhere = _facts(draw, KO)
    told = [
        draw.choice(
            [
                f"{_with(one, '은')} {colour} {_with(thing, '을')} 가지고 있었습니다.",
                f"어느 날 {_with(one, '은')} {colour} {_with(thing, '을')} 찾았습니다.",
            ]
        ),
        draw.choice(
            [
                f"{_with(one, '은')} {_with(thing, '을')} {where}에 넣었습니다.",
                f"{_with(one, '은')} 그것을 {where}에 숨겼습니다.",
            ]
        ),
    ]
    if draw.random() < 0.5:
        told.append(f"그때 {draw.choice(KO['weather'])}.")
    if draw.random() < 0.5:
        told.append(f"나중에 {_with(other, '이')} {where}에서 {_with(thing, '을')} 꺼내 {elsewhere}에 넣었습니다.")
        where = elsewhere
    told += draw.choice(
        [
            [
                f"{_with(other, '은')} {one}에게 물었습니다. {_with(thing, '은')} 어디에 있어?",
                f"{_with(one, '은')} 말했습니다. {_with(thing, '은')} {where}에 있어.",
            ],
            [
                f"{_with(one, '은')} {other}에게 물었습니다. {_with(thing, '을')} 보았어?",
                f"{_with(other, '은')} 말했습니다. {_with(where, '을')} 열어 봐.",
            ],
            [f"{_with(one, '과')} {_with(other, '은')} 함께 {_with(thing, '을')} 찾았습니다."],
        ]
    )
    told.append(f"두 사람이 {_with(where, '을')} 보니 {colour} {_with(thing, '이')} 있었습니다.")
    if draw.random() < 0.6:
        told.append(f"{_with(one, '은')} {draw.choice(KO['feeling'])}. {other}도 {draw.choice(KO['feeling'])}.")
    return told


def _facts(draw: random.Random, words: dict[str, list[str]]) -> tuple[str, str, str, str]:
    where, elsewhere = draw.sample(words["place"], 2)
    return draw.choice(words["colour"]), draw.choice(words["thing"]), where, elsewhere


def _with(noun: str, particle: str) -> str:
    """A noun and the form of its particle that its last syllable asks for."""
    has_final_consonant = (ord(noun[-1]) - ord("가")) % 28 != 0
    return noun + PARTICLES[particle][0 if has_final_consonant else 1]
